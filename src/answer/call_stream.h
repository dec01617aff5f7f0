/* Reading calls of tools while they are written, so that their arguments can be passed on before
 * they are complete.
 *
 * A call whose name stands before its arguments, which are an object or those of a function in
 * Python, is read as it comes: JSON token by token, as it is written; Python argument by argument,
 * as the JSON that answer/call_parse.h makes of it. Another call is read whole by that.
 *
 * Threads: a stream belongs to one thread. */
#ifndef ANSWER_CALL_STREAM_H
#define ANSWER_CALL_STREAM_H

#include "answer/format.h"
#include "answer/json_scan.h"
#include "answer/tools.h"
#include "base/arena.h"
#include "base/map.h"

typedef enum mc_call_event {
    MC_CALL_WAITS,  /* more of the answer is needed */
    MC_CALL_BEGINS, /* text: the tool's name */
    MC_CALL_TEXT,   /* text: the next part of the arguments, not empty */
    MC_CALL_ENDS,   /* the arguments are complete */
    MC_CALL_WHOLE,  /* what follows is to be read whole: mc_calls_read, in a list if `in_list` */
    MC_CALL_BREAKS, /* what follows belongs to no call; the one that has begun is not complete */
    MC_CALL_CUT,    /* as that, because the answer ends here (answer/call_marked.h) */
    MC_CALL_CLOSES  /* the block is at its end */
} mc_call_event;

typedef struct mc_call_step {
    mc_call_event event;
    size_t used; /* bytes of the text that are read */
    mc_str text; /* valid until the next step */
} mc_call_step;

typedef struct mc_call_stream {
    const mc_tools *tools;
    mc_call_body body;
    const mc_call_syntax *syntax; /* of the bodies that have one (answer/call_marked.h) */
    mc_str end;                   /* the block's mark; empty: the end of the answer */
    bool begun;                   /* a call has begun */
    bool in_list;                 /* within [ ] */

    /* Private. */
    enum { MC_CALL_BETWEEN, MC_CALL_ARGUMENTS, MC_CALL_TAIL } part;
    mc_json_scan json;
    size_t runs[4];      /* between calls: where the runs of white space end that are read */
    size_t scanned;      /* bytes of the tail, or of a value */
    size_t objects;      /* that the arguments are in */
    size_t count;        /* of arguments, where they are no JSON */
    size_t tried;        /* bytes of an argument that was not complete */
    mc_json_scan value;  /* of an argument written as it is */
    bool is_text;        /* that is none of JSON */
    bool is_string;      /* the key says so */
    mc_map keys;         /* of the arguments that are read, in `names` */
    mc_arena names;      /* escaped as in JSON */
    const mc_tool *tool; /* that is called */
    mc_buffer out;       /* JSON made of these */
} mc_call_stream;

mc_call_stream mc_call_stream_of(const mc_call_block *block, const mc_tools *tools);
void mc_call_stream_deinit(mc_call_stream *stream);

/* The next event; never MC_CALL_CUT. Until MC_CALL_BEGINS nothing of the block is used.
 *
 *  text   of the block, behind what is read.
 *  ended  the answer ends with it.
 *  errors MICA_ENOMEM */
mica_status mc_call_stream_next(mc_call_stream *stream, mc_str text, bool ended,
                                mc_call_step *step);

#endif

/* Finding where a block of calls ends, while the answer comes. Each byte is looked at once, however
 * small the pieces are: an answer may be forced to be full of marks.
 *
 * An end's mark within a string is none, but for a token's. JSON is read strictly: a block is known
 * to hold no calls at the first byte that cannot belong to any.
 *
 * Threads: a scan belongs to one thread. */
#ifndef ANSWER_CALL_SCAN_H
#define ANSWER_CALL_SCAN_H

#include "answer/format.h"
#include "answer/json_scan.h"

typedef enum mc_call_extent {
    MC_CALLS_WAIT,  /* more of the answer is needed */
    MC_CALLS_END,   /* the end's mark stands at `at` */
    MC_CALLS_BROKEN /* the block holds no calls, whatever follows */
} mc_call_extent;

typedef struct mc_call_scan {
    size_t at; /* bytes of the block that are read */

    /* Private. */
    const mc_call_block *block;
    enum {
        MC_SCAN_BEGIN,
        MC_SCAN_OBJECT,  /* behind the bracket of a list */
        MC_SCAN_KEY,     /* behind an object's bracket */
        MC_SCAN_NAME,    /* a function's, in Python */
        MC_SCAN_VALUE,   /* within JSON */
        MC_SCAN_BEHIND,  /* such a value */
        MC_SCAN_BETWEEN, /* two of them, behind the comma */
        MC_SCAN_CODE     /* Python */
    } part;
    mc_json_scan json;
    size_t name;    /* where the name begins; 0: it has not */
    char quote;     /* CODE: of the string that is read; 0: none */
    bool escaped;   /* CODE: a backslash came before */
    unsigned begun; /* CODE: beginnings of blocks within strings */
} mc_call_scan;

/* A scan of what stands behind a block's mark; or, if `begun`, behind calls that are read, which
 * may be in a list. */
mc_call_scan mc_call_scan_of(const mc_call_block *block, bool begun, bool in_list);

/* Reads on.
 *
 *  text   of the block, from its beginning: what was given before, and more.
 *  errors MICA_ENOMEM */
mica_status mc_call_scan_next(mc_call_scan *scan, mc_str text, mc_call_extent *extent);

/* Whether the answer may end here: what was read may be whole calls. */
bool mc_call_scan_may_end(const mc_call_scan *scan);

#endif

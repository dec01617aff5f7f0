/* Splitting an answer, as it comes, into what the model thought, what it says, and calls of tools.
 *
 * Pieces of any length go in, down to single bytes; the same parts come out. Text that may turn out
 * to begin a mark, or a call, is held back until that is known. A call comes out when it is
 * complete; one that is malformed, or of none of the request's tools, comes out as the text that it
 * is. White space around thoughts and calls is dropped.
 *
 * Calls may come out while they are written (mc_splitter_stream_calls): the name once it is read,
 * if it stands before the arguments, and these as they come. Then what the arguments add up to is
 * what the call has that comes out whole. A call that turns out to be malformed, or is cut off,
 * stays what it is, and is marked as broken; what follows it is text.
 *
 * Threads: a splitter belongs to one thread at a time. */
#ifndef ANSWER_SPLITTER_H
#define ANSWER_SPLITTER_H

#include "answer/format.h"
#include "answer/tools.h"

typedef enum mc_piece_kind {
    MC_PIECE_TEXT,
    MC_PIECE_THOUGHT,
    MC_PIECE_CALL, /* a whole call. Not of a splitter that streams calls, which has these: */
    MC_PIECE_CALL_BEGIN,
    MC_PIECE_CALL_TEXT, /* more of its arguments */
    MC_PIECE_CALL_END   /* follows each BEGIN, before anything else but its TEXT */
} mc_piece_kind;

typedef struct mc_piece {
    mc_piece_kind kind;
    mc_str text; /* not empty; CALL: the arguments, the text of a JSON object; BEGIN, END: none */
    mc_str name; /* CALL, BEGIN: the tool */
    bool broken; /* END: the arguments are not complete, so that nobody should run the call */
} mc_piece;

/* Called for each part, in order. An error ends the call of the splitter with it. */
typedef mica_status (*mc_take_piece)(void *user, const mc_piece *piece);

typedef struct mc_splitter mc_splitter;

/* format   copied.
 * tools    of the request; NULL: no calls are looked for. Borrowed.
 * is_open  the answer begins within a thought (mc_answer_format_is_open).
 * errors   MICA_ENOMEM */
mica_status mc_splitter_open(const mc_answer_format *format, const mc_tools *tools, bool is_open,
                             mc_take_piece take, void *user, mc_splitter **splitter);
void mc_splitter_close(mc_splitter **splitter); /* takes NULL inside */

/* Only the first call comes out; others are dropped. */
void mc_splitter_keep_one_call(mc_splitter *splitter);

/* Calls come out while they are written. To be called before anything is pushed. */
void mc_splitter_stream_calls(mc_splitter *splitter);

/* Takes the next bytes of the answer, none of which are marks that are tokens.
 * errors  MICA_ENOMEM; those of `take` */
mica_status mc_splitter_push(mc_splitter *splitter, const char *text, size_t len);

/* Takes a token of the answer with its text. Of a mark that is a special token there is none, or
 * the mark ends it: all text before it is there. Of another mark the text may come later, with
 * other tokens, all of it or the end: stop strings hold it back. errors  as above */
mica_status mc_splitter_push_token(mc_splitter *splitter, int32_t id, const char *text, size_t len);

/* Ends the answer: hands out all that is held back. errors  as above */
mica_status mc_splitter_end(mc_splitter *splitter);

/* Whether the answer is within a thought now. */
bool mc_splitter_is_thinking(const mc_splitter *splitter);

#endif

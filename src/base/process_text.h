/* What a child process (process.h) has said and is not given out yet: lines of its standard output,
 * and the last of its standard error.
 *
 * Threads: one at a time. */
#ifndef BASE_PROCESS_TEXT_H
#define BASE_PROCESS_TEXT_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"

enum {
    MC_PROCESS_CHUNK = 65536, /* what is read of output at once */
    MC_PROCESS_ERRORS = 4096  /* what is kept of standard error */
};

typedef struct mc_process_text {
    size_t max_line;
    mc_buffer lines;    /* output that was read */
    size_t begin, seen; /* where the next line begins in it; no line feed between there and seen */
    mc_buffer errors;   /* the last of standard error */
} mc_process_text;

/* errors  MICA_ENOMEM; the text is deinitialised all the same */
mica_status mc_process_text_init(mc_process_text *text, size_t max_line);
void mc_process_text_deinit(mc_process_text *text);

/* Makes room for MC_PROCESS_CHUNK bytes of output. Lines that were given out are no longer valid.
 * returns  where they go: lines.len counts them then; NULL: no memory */
char *mc_process_text_room(mc_process_text *text);

/* The same for fewer than MC_PROCESS_ERRORS bytes of standard error, for which there is room
 * always. */
char *mc_process_text_errors_room(mc_process_text *text);

/* Finds the next whole line, without its line feed, in what was read.
 * errors  MICA_EFORMAT it is longer than it may be, whole or not */
mica_status mc_process_text_next(mc_process_text *text, mc_str *line, bool *found);

/* What followed the last line feed. Taken then. */
mc_str mc_process_text_rest(mc_process_text *text);

/* The last MC_PROCESS_ERRORS bytes of standard error. */
const char *mc_process_text_errors(mc_process_text *text);

#endif

/* Stop strings in a stream of text: what is decided is let through, what may yet become a stop
 * string is held back.
 *
 * The first string to be complete ends the text; of several that end at the same byte, the longest.
 * So the result does not depend on how the text was cut into pieces. Each byte costs a step of the
 * automaton of each string (Knuth, Morris & Pratt 1977).
 *
 * Threads: one at a time. */
#ifndef SESSION_STOP_TEXT_H
#define SESSION_STOP_TEXT_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdint.h>

typedef struct mc_stop_string {
    char *text;     /* [len], owned */
    uint32_t *back; /* [len]: the longest proper prefix of text[0..i] that it ends with */
    size_t len;     /* > 0 */
    size_t matched; /* bytes of text that the stream ends with */
} mc_stop_string;

typedef struct mc_stop_text { /* zero: no strings, everything goes through */
    mc_stop_string *strings;
    size_t count;
    mc_buffer held; /* undecided */
    mc_buffer out;  /* what the last call handed out */
} mc_stop_text;

/* Takes copies of strings[count].
 * errors  MICA_EINVAL one is NULL, empty, no UTF-8 or of 2^32 bytes; MICA_ENOMEM. Deinit it then */
mica_status mc_stop_text_init(mc_stop_text *stops, const char *const *strings, size_t count);
void mc_stop_text_deinit(mc_stop_text *stops); /* takes a zeroed one */

typedef enum mc_stop_mode {
    MC_STOPS_ON,
    MC_STOPS_IGNORED, /* strings that become complete in this piece do not count */
    MC_STOPS_LAST,    /* on, and no text follows: nothing is held back */
} mc_stop_mode;

/* Takes a piece of text, whole characters, and gives what is decided by it.
 *
 *  out, out_len  receive the text, with a NUL after it; alive until the next call.
 *  found         receives whether a stop string is complete: out is all that is before it, and
 *                nothing may be pushed any more.
 *  errors        MICA_ENOMEM */
mica_status mc_stop_text_push(mc_stop_text *stops, const char *text, size_t len, mc_stop_mode mode,
                              const char **out, size_t *out_len, bool *found);

#endif

/* Finds stop strings in a stream of text. Text that may yet become a stop string is held back; all
 * other text is let through.
 *
 * The text ends at the first stop string to be complete; if several are complete at the same byte,
 * at the longest. So the result does not depend on how the text is cut into pieces. Each byte is
 * one step of an automaton for each string (Knuth, Morris & Pratt 1977).
 *
 * Threads: one at a time. */
#ifndef SESSION_STOP_TEXT_H
#define SESSION_STOP_TEXT_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdint.h>

typedef struct mc_stop_string {
    char *text; /* [len], owned */
    /* [len]: length of the longest proper prefix of text that text[0..i] ends with */
    uint32_t *back;
    size_t len;     /* > 0 */
    size_t matched; /* length of the prefix that the stream ends with */
} mc_stop_string;

typedef struct mc_stop_text { /* all zero: no strings, all text goes through */
    mc_stop_string *strings;
    size_t count;
    mc_buffer held; /* text held back */
    mc_buffer out;  /* text that the last call gave */
} mc_stop_text;

/* Copies strings[count].
 *  errors  MICA_EINVAL one is NULL, empty, not UTF-8 or of 2^32 bytes; MICA_ENOMEM. Deinit it
 * then */
mica_status mc_stop_text_init(mc_stop_text *stops, const char *const *strings, size_t count);
void mc_stop_text_deinit(mc_stop_text *stops); /* takes a zeroed one */

typedef enum mc_stop_mode {
    MC_STOPS_ON,
    MC_STOPS_IGNORED, /* strings that become complete in this piece do not count */
    MC_STOPS_LAST,    /* the last piece: no text is held back */
} mc_stop_mode;

/* Takes a piece of text, whole characters, and gives the text that is decided now.
 *
 *  out, out_len  receive the text, with a NUL after it; valid until the next call.
 *  found         receives whether a stop string is complete. Then out is the text before it, and no
 *                more may be pushed.
 *  errors        MICA_ENOMEM */
mica_status mc_stop_text_push(mc_stop_text *stops, const char *text, size_t len, mc_stop_mode mode,
                              const char **out, size_t *out_len, bool *found);

/* No stop string goes on from here: adds the text that is held back to what the last push gave, or
 * to nothing.
 *  errors  MICA_ENOMEM */
mica_status mc_stop_text_break(mc_stop_text *stops, const char **out, size_t *out_len);

/* The stop string that was found, which lives as long as `stops`; NULL: none was. */
const char *mc_stop_text_found(const mc_stop_text *stops);

#endif

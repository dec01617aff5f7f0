/* The pre-tokenizer: cuts normalised text into the pieces that the model encodes one by one.
 *
 * Every step gives each piece to the next step at once; no list of pieces is kept. A step may also
 * rewrite text. Immutable once loaded. */
#ifndef TEXT_TOKENIZER_PRETOKENIZE_H
#define TEXT_TOKENIZER_PRETOKENIZE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/store.h"
#include "text/tokenizer/work.h"

#include <stdbool.h>

enum { MC_PRETOKENIZER_STEPS = 32 };

typedef struct mc_pretokenizer { /* zero makes one piece of a text */
    mc_buffer steps;             /* of split_step, in order */
    bool spells_bytes;           /* the last step spells bytes as ByteLevel does */
    bool leaves_bytes;           /* that step is left out: the taker of the pieces does it */
} mc_pretokenizer;

/* Reads "pre_tokenizer".
 * errors  MICA_EUNSUPPORTED an unknown type (the text names it), or too many steps; MICA_EFORMAT;
 *         those of mc_regex_compile; MICA_ENOMEM */
mica_status mc_pretokenizer_parse(mc_pretokenizer *p, mc_json v, mc_store *store);
void mc_pretokenizer_deinit(mc_pretokenizer *p);

typedef struct mc_pretokenizing { /* one thread's run, and scratch; zero but for the first four */
    const mc_pretokenizer *pretokenizer;
    mica_status (*take)(void *arg, mc_str piece); /* called for each piece; none is empty */
    void *arg;
    mc_work *work; /* limits of the text */
    size_t count;  /* number of stages */
    struct {
        mc_buffer text;
        bool begun; /* this is not the beginning of the text or of the input */
    } stages[MC_PRETOKENIZER_STEPS];
} mc_pretokenizing;

/* Splits a text. at_start: the text is the beginning of the input, with no added token before it.
 * errors  MICA_EUNSUPPORTED the text exceeds its limits; MICA_ENOMEM; those of mc_regex_find and
 *         take */
mica_status mc_pretokenize(mc_pretokenizing *run, mc_str text, bool at_start);
void mc_pretokenizing_deinit(mc_pretokenizing *run);

#endif

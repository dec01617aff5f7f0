/* The pre-tokenizer: cuts normalised text into the pieces that the model sees one by one.
 *
 * Every step hands each of its pieces to the next at once, so that no list of them is kept. A step
 * may rewrite text as well. Immutable once loaded. */
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
    bool leaves_bytes;           /* that step is left to who takes the pieces */
} mc_pretokenizer;

/* Reads "pre_tokenizer". errors  MICA_EUNSUPPORTED names the type, or more steps than there may be;
 *                                MICA_EFORMAT; those of mc_regex_compile; MICA_ENOMEM */
mica_status mc_pretokenizer_parse(mc_pretokenizer *p, mc_json v, mc_store *store);
void mc_pretokenizer_deinit(mc_pretokenizer *p);

typedef struct mc_pretokenizing { /* one thread's run, and scratch; zero but for the first four */
    const mc_pretokenizer *pretokenizer;
    mica_status (*take)(void *arg, mc_str piece); /* gets the pieces, none of them empty */
    void *arg;
    mc_work *work; /* of the text */
    size_t count;  /* of stages */
    struct {
        mc_buffer text;
        bool begun; /* something came before, in this text or the input */
    } stages[MC_PRETOKENIZER_STEPS];
} mc_pretokenizing;

/* at_start tells that text is the beginning of the input (no added token went before).
 * errors  MICA_EUNSUPPORTED more than the work allows; MICA_ENOMEM; those of mc_regex_find and of
 *         take */
mica_status mc_pretokenize(mc_pretokenizing *run, mc_str text, bool at_start);
void mc_pretokenizing_deinit(mc_pretokenizing *run);

#endif

/* What the steps of a tokenizer may do to a text: how much they may add to it, all together, and
 * how long they may match patterns in it. A tokenizer.json of a few lines can otherwise ask for any
 * amount of memory and time. What a step makes is taken from here before memory is taken for it.
 *
 * Threads: one at a time. */
#ifndef TEXT_TOKENIZER_WORK_H
#define TEXT_TOKENIZER_WORK_H

#include "base/status.h"
#include "text/tokenizer/regex.h"

#include <stddef.h>

/* How much may be added to a text: so many bytes for each byte, and so many more. */
typedef struct mc_growth {
    size_t factor, base;
} mc_growth;

/* NFKC makes 11 bytes of one, and ByteLevel two of each of them. Decoders shorten. */
#define MC_GROWTH_ENCODE ((mc_growth){32, 65536})
#define MC_GROWTH_DECODE ((mc_growth){8, 64})

typedef struct mc_work { /* zero allows nothing to be added */
    mc_regex_room regex;
    size_t left; /* bytes that may be added */
    mc_growth growth;
} mc_work;

/* Sets what may be added to a text of len bytes. Patterns go on: mc_regex_begin(&work->regex). */
void mc_work_begin(mc_work *work, size_t len, mc_growth growth);
void mc_work_deinit(mc_work *work);

mica_status mc_work_refuse(const mc_work *work);

/* Takes leave to add so many bytes; what was not needed may be given back to left.
 * errors  MICA_EUNSUPPORTED that is too much */
static inline mica_status mc_work_add(mc_work *work, size_t bytes) {
    if (bytes > work->left) return mc_work_refuse(work);
    work->left -= bytes;
    return MICA_OK;
}

#endif

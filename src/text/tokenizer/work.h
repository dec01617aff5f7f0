/* The limits of a tokenizer's steps on one text: how many bytes they may add in all, and how many
 * steps pattern matching may take. Without limits a tokenizer.json of a few lines could ask for any
 * amount of memory and time. A step charges its output here before it allocates memory for it.
 *
 * Threads: one at a time. */
#ifndef TEXT_TOKENIZER_WORK_H
#define TEXT_TOKENIZER_WORK_H

#include "base/status.h"
#include "text/tokenizer/regex.h"

#include <stddef.h>

/* How much may be added to a text: a number of bytes for each byte, plus a base. */
typedef struct mc_growth {
    size_t factor, base;
} mc_growth;

/* NFKC makes up to 11 bytes of one, and ByteLevel 2 bytes of each of those. Decoders shorten. */
#define MC_GROWTH_ENCODE ((mc_growth){32, 65536})
#define MC_GROWTH_DECODE ((mc_growth){8, 64})

typedef struct mc_work { /* zero allows nothing to be added */
    mc_regex_room regex;
    size_t left; /* bytes that may be added */
    mc_growth growth;
} mc_work;

/* Sets how much may be added to a text of len bytes. Does not reset the count of pattern steps:
 * mc_regex_begin(&work->regex) does that. */
void mc_work_begin(mc_work *work, size_t len, mc_growth growth);
void mc_work_deinit(mc_work *work);

mica_status mc_work_refuse(const mc_work *work);

/* Charges for bytes to be added. Bytes that were not needed may be added to `left` again.
 * errors  MICA_EUNSUPPORTED too many bytes */
static inline mica_status mc_work_add(mc_work *work, size_t bytes) {
    if (bytes > work->left) return mc_work_refuse(work);
    work->left -= bytes;
    return MICA_OK;
}

#endif

/* The split patterns of well-known tokenizers as C functions.
 *
 * A function is chosen by the pattern's text. It cuts a text into the same pieces as the pattern
 * (a test compares them with PCRE2), but reads each character at most three times, unlike a
 * backtracking matcher. Threads: safe. */
#ifndef TEXT_TOKENIZER_SCAN_H
#define TEXT_TOKENIZER_SCAN_H

#include "base/str.h"
#include "text/unicode.h"

/* The length of the first piece of valid UTF-8 text, which is not empty; never 0. */
typedef size_t (*mc_scan)(const mc_classes *classes, mc_str text);

/* GPT-2's pattern, by which ByteLevel cuts with "use_regex". */
#define MC_SCAN_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* The function of a pattern; NULL: there is none. */
mc_scan mc_scan_find(mc_str pattern);

#endif

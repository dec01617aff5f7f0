/* The split patterns of well-known tokenizers, written out.
 *
 * Each is told by the pattern's text and cuts a text into the same pieces as the pattern does,
 * which matches everywhere (tests/text/scan.c compares them with PCRE2). Unlike a backtracking
 * matcher they look at each character at most three times. Threads: safe. */
#ifndef TEXT_TOKENIZER_SCAN_H
#define TEXT_TOKENIZER_SCAN_H

#include "base/str.h"
#include "text/unicode.h"

/* The length of the piece that valid UTF-8 text, not empty, begins with; never 0. */
typedef size_t (*mc_scan)(const mc_classes *classes, mc_str text);

/* GPT-2's pattern, which ByteLevel cuts by where it says "use_regex". */
#define MC_SCAN_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* NULL where the pattern is not one of them. */
mc_scan mc_scan_find(mc_str pattern);

#endif

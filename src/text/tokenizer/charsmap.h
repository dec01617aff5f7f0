/* The map of characters that SentencePiece compiles ("Precompiled"): a double array that finds the
 * shortest entry that a text begins with, and the texts that replace entries.
 *
 *      u32  bytes of the double array
 *      u32  units: bit 8 "an entry ends here", bits 31 and 7..0 the label, or bits 30..0 a position
 *           in the texts; bits 31..10 (shifted by 8 more where bit 9 is set) the offset
 *      texts, each with a NUL after it
 *
 * source  Yata's darts-clone; SentencePiece's normalizer.cc; behaviour of `tokenizers`. A map is
 * not trusted: a unit or a position outside it ends the search. Immutable once loaded. */
#ifndef TEXT_TOKENIZER_CHARSMAP_H
#define TEXT_TOKENIZER_CHARSMAP_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/work.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mc_charsmap { /* zero changes nothing */
    const char *units;       /* [unit_count] u32, little-endian, of any alignment */
    size_t unit_count;
    mc_str texts;
} mc_charsmap;

/* Reads a map, which the result points into. errors  MICA_EFORMAT */
mica_status mc_charsmap_read(mc_str bytes, mc_charsmap *map);

/* Adds the text, which is valid UTF-8, with each grapheme of less than 6 bytes, or else each of its
 * characters, replaced by what the map has for the shortest entry that it begins with. O(n).
 * errors  MICA_EUNSUPPORTED the text exceeds its limits; MICA_ENOMEM */
mica_status mc_charsmap_apply(const mc_charsmap *map, mc_str text, mc_work *work, mc_buffer *out);

#endif

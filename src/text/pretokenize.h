/* The pre-tokenizer: cuts normalised text into the pieces that the model sees one by one.
 *
 * A step may rewrite text as well, so pieces are kept as a text and where each of them ends.
 * Immutable once loaded. */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

typedef struct mc_pieces {
    mc_buffer text;
    mc_buffer ends; /* of size_t, ascending; the first piece starts at 0 */
} mc_pieces;

typedef struct mc_pretokenizer { /* zero makes one piece of a text */
    mc_buffer steps;             /* of split_step, in order */
} mc_pretokenizer;

/* Reads "pre_tokenizer". errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_pretokenizer_parse(mc_pretokenizer *p, mc_json v, mc_arena *arena);
void mc_pretokenizer_deinit(mc_pretokenizer *p);

/* at_start tells that text is the beginning of the input (no added token went before).
 * *out is one of the two scratch pieces. errors  MICA_ENOMEM */
mica_status mc_pretokenize(const mc_pretokenizer *p, mc_str text, bool at_start,
                           mc_pieces scratch[2], const mc_pieces **out);

bool mc_pieces_add(mc_pieces *pieces, mc_str piece); /* an empty one is left out */
size_t mc_pieces_count(const mc_pieces *pieces);
mc_str mc_pieces_at(const mc_pieces *pieces, size_t i);
void mc_pieces_deinit(mc_pieces *pieces);

#endif

/* Unicode's normal forms, by utf8proc.  source  UAX #15 */
#ifndef TEXT_TOKENIZER_NORMAL_FORM_H
#define TEXT_TOKENIZER_NORMAL_FORM_H

#include "base/buffer.h"
#include "base/str.h"
#include "text/unicode.h"

#include <stdbool.h>

typedef enum mc_normal_form { MC_NFC, MC_NFD, MC_NFKC, MC_NFKD } mc_normal_form;

/* Adds valid UTF-8 text in a normal form to out; room is scratch memory. O(n) for every text.
 * `classes` is needed only for NFC. false: no memory. */
bool mc_normal_form_add(mc_normal_form form, const mc_classes *classes, mc_str text,
                        mc_buffer *room, mc_buffer *out);

#endif

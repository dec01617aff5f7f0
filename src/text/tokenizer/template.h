/* The post-processor: the special tokens before and after a text. Immutable once loaded. */
#ifndef TEXT_TOKENIZER_TEMPLATE_H
#define TEXT_TOKENIZER_TEMPLATE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/store.h"
#include "text/tokenizer/vocab.h"

typedef struct mc_template { /* zero adds nothing */
    mc_buffer before;        /* of int32 ids */
    mc_buffer after;
} mc_template;

/* Reads "post_processor". errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_template_parse(mc_template *t, mc_json v, const mc_vocab *vocab, mc_store *store);
void mc_template_deinit(mc_template *t);

#endif

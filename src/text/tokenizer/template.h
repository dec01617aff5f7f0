/* The post-processor: the special tokens around a text, and those of a pair of texts. Immutable
 * once loaded. */
#ifndef TEXT_TOKENIZER_TEMPLATE_H
#define TEXT_TOKENIZER_TEMPLATE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/store.h"
#include "text/tokenizer/vocab.h"

enum { MC_PART_FIRST = -1, MC_PART_SECOND = -2 };

typedef struct mc_template_part { /* of a pair */
    int32_t id;                   /* of a special token; MC_PART_FIRST, MC_PART_SECOND: a text */
    int32_t type;                 /* the type id of its tokens */
} mc_template_part;

typedef struct mc_template { /* zero adds nothing */
    mc_buffer before;        /* of int32 ids */
    mc_buffer after;
    mc_buffer pair;    /* of mc_template_part; empty: both texts, of the types 0 and 1 */
    size_t processors; /* that add tokens; with several, pairs are not known */
} mc_template;

/* Reads "post_processor". errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_template_parse(mc_template *t, mc_json v, const mc_vocab *vocab, mc_store *store);
void mc_template_deinit(mc_template *t);

/* The number of special tokens around a pair of texts. */
size_t mc_template_around_pair(const mc_template *t);

/* Adds the ids of a pair and their type ids (int32, as many), with the special tokens around them.
 * errors  MICA_EUNSUPPORTED the file says nothing that mica knows about pairs; MICA_ENOMEM */
mica_status mc_template_join(const mc_template *t, const int32_t *first, size_t n_first,
                             const int32_t *second, size_t n_second, mc_buffer *ids,
                             mc_buffer *types);

#endif

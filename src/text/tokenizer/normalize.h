/* The normalizer: rewrites text before it is split. Immutable once loaded. */
#ifndef TEXT_TOKENIZER_NORMALIZE_H
#define TEXT_TOKENIZER_NORMALIZE_H

#include "base/buffer.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/store.h"
#include "text/tokenizer/work.h"

typedef struct mc_normalizer { /* zero leaves text as it is */
    mc_buffer steps;           /* of normal_step, in order */
} mc_normalizer;

typedef struct mc_normalizing { /* one thread's scratch; zero but for work */
    mc_work *work;              /* limits of the text */
    mc_buffer text[2];
    mc_buffer characters; /* for the normal forms */
} mc_normalizing;

/* Reads "normalizer".
 * errors  MICA_EUNSUPPORTED names the type; MICA_EFORMAT; those of mc_regex_compile; MICA_ENOMEM */
mica_status mc_normalizer_parse(mc_normalizer *n, mc_json v, mc_store *store);
/* Lowers letters before all else, unless a step does already. errors  MICA_ENOMEM */
mica_status mc_normalizer_lower(mc_normalizer *n);

void mc_normalizer_deinit(mc_normalizer *n);

/* Normalises a text. *out is text itself if there are no steps, else in the scratch memory.
 * errors  MICA_EUNSUPPORTED the text exceeds its limits; MICA_ENOMEM; those of mc_regex_find */
mica_status mc_normalize(const mc_normalizer *n, mc_str text, mc_normalizing *s, mc_str *out);
void mc_normalizing_deinit(mc_normalizing *s);

#endif

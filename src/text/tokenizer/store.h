/* Memory of a tokenizer's steps: texts, compiled patterns, classes. It is freed with the
 * tokenizer. */
#ifndef TEXT_TOKENIZER_STORE_H
#define TEXT_TOKENIZER_STORE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/regex.h"
#include "text/unicode.h"

typedef struct mc_store { /* zero is empty */
    mc_arena arena;
    mc_buffer regexes;   /* of mc_regex * */
    mc_classes *classes; /* NULL until a step needs it */
} mc_store;

/* Copies text. errors  MICA_ENOMEM */
mica_status mc_store_text(mc_store *store, mc_str text, mc_str *out);

/* Compiles a pattern. errors  those of mc_regex_compile */
mica_status mc_store_regex(mc_store *store, mc_str pattern, const mc_regex **out);

/* The table of classes, made once. errors  MICA_ENOMEM */
mica_status mc_store_classes(mc_store *store, const mc_classes **out);

void mc_store_deinit(mc_store *store);

#endif

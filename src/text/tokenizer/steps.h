/* Reading the pipelines of a tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.
 *
 * A pipeline is null, one step, or a Sequence of steps, which may contain Sequences. A step is an
 * object with a "type". Each pipeline's file has a table of the types. */
#ifndef TEXT_TOKENIZER_STEPS_H
#define TEXT_TOKENIZER_STEPS_H

#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/store.h"

/* A pipeline that is being read. */
typedef struct mc_steps {
    const char *field; /* "normalizer": for error texts */
    const char *list;  /* key of a Sequence's list: "normalizers" */
    mc_store *store;   /* memory of the steps */
    void *into;        /* the pipeline to fill */
    mica_status (*add)(const struct mc_steps *steps, mc_str type, mc_json step);
} mc_steps;

/* When Metaspace puts its mark before a text. */
typedef enum mc_prepend { MC_PREPEND_ALWAYS, MC_PREPEND_FIRST, MC_PREPEND_NEVER } mc_prepend;

/* Calls add for every step in order. */
mica_status mc_steps_parse(const mc_steps *steps, mc_json v);

/* "normalizer: the type 'X' is not supported" */
mica_status mc_steps_unknown(const mc_steps *steps, mc_str type);

/* "normalizer: more than 256 steps are not supported" */
mica_status mc_steps_too_many(const mc_steps *steps, int max);

/* Copies a string field into the store. errors  MICA_EFORMAT it is missing or not a string */
mica_status mc_steps_str(const mc_steps *steps, mc_json step, const char *key, mc_str *out);
/* The same for a string of one character. errors  MICA_EFORMAT it has none or several */
mica_status mc_steps_char(const mc_steps *steps, mc_json step, const char *key, mc_str *out);

/* An optional field; *out is unchanged if it is missing or null.
 * errors  MICA_EFORMAT it has another type */
mica_status mc_steps_bool(const mc_steps *steps, mc_json step, const char *key, bool *out);
mica_status mc_steps_size(const mc_steps *steps, mc_json step, const char *key, size_t *out);

/* A "pattern": a string that is not empty, or a regular expression; at most 65,536 bytes.
 * errors  MICA_EFORMAT; those of mc_regex_compile */
mica_status mc_steps_pattern(const mc_steps *steps, mc_json step, mc_pattern *out);

/* Reads the fields that the pre-tokenizer and the decoder Metaspace share: "replacement", and
 * "prepend_scheme" or the older "add_prefix_space". errors  MICA_EFORMAT */
mica_status mc_steps_metaspace(const mc_steps *steps, mc_json step, mc_str *mark,
                               mc_prepend *prepend);

#endif

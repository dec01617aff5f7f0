/* Reading the pipelines of a tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder.
 *
 * Each is null, one step, or a Sequence of steps, Sequences in it included. A step is an object
 * with a "type"; which types there are is a table in each pipeline's file. */
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
    const char *list;  /* what a Sequence calls its list: "normalizers" */
    mc_store *store;   /* what steps keep is put here */
    void *into;        /* the pipeline */
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

/* Copies a string field into the store. errors  MICA_EFORMAT it is not there or no string */
mica_status mc_steps_str(const mc_steps *steps, mc_json step, const char *key, mc_str *out);
/* The same for one that is a character. errors  MICA_EFORMAT it is none, or several */
mica_status mc_steps_char(const mc_steps *steps, mc_json step, const char *key, mc_str *out);

/* A field that may be missing or null; *out is then left.
 * errors  MICA_EFORMAT it is of another type */
mica_status mc_steps_bool(const mc_steps *steps, mc_json step, const char *key, bool *out);
mica_status mc_steps_size(const mc_steps *steps, mc_json step, const char *key, size_t *out);

/* A "pattern": a string, never empty, or a regular expression; of 65,536 bytes at most.
 * errors  MICA_EFORMAT; those of mc_regex_compile */
mica_status mc_steps_pattern(const mc_steps *steps, mc_json step, mc_pattern *out);

/* What the pre-tokenizer and the decoder Metaspace have in common: "replacement" and
 * "prepend_scheme" or the older "add_prefix_space". errors  MICA_EFORMAT */
mica_status mc_steps_metaspace(const mc_steps *steps, mc_json step, mc_str *mark,
                               mc_prepend *prepend);

#endif

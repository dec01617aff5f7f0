/* A typed reader of config.json and similar files (generation_config.json, adapter_config.json).
 *
 * A config owns its document. A scope is an object in it: the root, or a nested one such as
 * text_config or quantization. Reading a key checks its type and range. An error names the file,
 * the dotted key, the wanted and the found value:
 *
 *     models/x/config.json: text_config.hidden_size: want an integer in 1..65536, found "abc"
 *
 * A key that is null counts as absent. For an absent optional key the reader leaves *value
 * unchanged: set the default first. Infinity and NaN, which Python writes, are out of
 * every range that does not end with them.
 *
 * Threads: a loaded config may be read from any number of threads. */
#ifndef IO_CONFIG_H
#define IO_CONFIG_H

#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_config mc_config;

/* Plain data; lives as long as its config. */
typedef struct mc_config_scope {
    const char *file; /* for error texts */
    mc_json object;   /* for iteration with mc_json_begin; NONE: every key is absent */
    char path[120];   /* "" for the root, else "text_config." and the like; a longer one is cut */
} mc_config_scope;

typedef enum mc_config_need { MC_OPTIONAL, MC_REQUIRED } mc_config_need;

/* Loads folder/name, such as "config.json". Its root must be an object.
 *
 * need    MC_OPTIONAL: a missing file gives *config NULL and MICA_OK.
 * config  owned by the caller; NULL after an error.
 * errors  MICA_ENOENT, MICA_EIO, MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_config_load(const char *folder, const char *name, mc_config_need need,
                           mc_config **config);

/* The same for text in memory; `name` goes into error texts. */
mica_status mc_config_parse(const char *text, size_t len, const char *name, mc_config **config);

/* Closes *config and sets it to NULL; nothing for NULL. */
void mc_config_close(mc_config **config);

/* The root of a config; for config NULL a scope in which every key is absent. */
mc_config_scope mc_config_root(const mc_config *config);

/* True if the key exists and is not null. */
bool mc_config_has(const mc_config_scope *scope, const char *key);

/* The readers. errors: MICA_ENOENT a required key is absent; MICA_EFORMAT a value of another type,
 * or out of range (bounds are inclusive). */

/* A nested object; an absent optional one gives a scope in which every key is absent. */
mica_status mc_config_object(const mc_config_scope *scope, const char *key, mc_config_need need,
                             mc_config_scope *value);

/* An integer, or a float with an integer value (2048.0). */
mica_status mc_config_int(const mc_config_scope *scope, const char *key, mc_config_need need,
                          int64_t min, int64_t max, int64_t *value);

/* A number. */
mica_status mc_config_float(const mc_config_scope *scope, const char *key, mc_config_need need,
                            double min, double max, double *value);

mica_status mc_config_bool(const mc_config_scope *scope, const char *key, mc_config_need need,
                           bool *value);

/* Text that lives as long as the config. */
mica_status mc_config_str(const mc_config_scope *scope, const char *key, mc_config_need need,
                          mc_str *value);

/* One integer or a list of integers, such as eos_token_id. If it is absent, *count is unchanged.
 *
 * values  [room]; *count receives the number of integers.
 * errors  also MICA_EFORMAT more than `room` integers */
mica_status mc_config_ints(const mc_config_scope *scope, const char *key, mc_config_need need,
                           int64_t min, int64_t max, int64_t *values, size_t room, size_t *count);

/* A list of numbers. As mc_config_ints, but one number is no list; Infinity is in a range that ends
 * with it. */
mica_status mc_config_floats(const mc_config_scope *scope, const char *key, mc_config_need need,
                             double min, double max, double *values, size_t room, size_t *count);

/* A list of texts, such as layer_types and architectures. As mc_config_ints. */
mica_status mc_config_strs(const mc_config_scope *scope, const char *key, mc_config_need need,
                           mc_str *values, size_t room, size_t *count);

/* An error of this scope's key for the caller's own checks: "file: path.key: <text>". */
mica_status mc_config_fail(const mc_config_scope *scope, const char *key, mica_status status,
                           const char *fmt, ...) MC_PRINTF(4, 5);

#endif

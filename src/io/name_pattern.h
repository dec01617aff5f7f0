/* Patterns of module names, used by PEFT's rank_pattern and alpha_pattern. */
#ifndef IO_NAME_PATTERN_H
#define IO_NAME_PATTERN_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A compiled pattern: a regular expression in PCRE2's syntax, which has Python's. It never changes;
 * any number of threads may use it at once. */
typedef struct mc_name_pattern mc_name_pattern;

/* The bytes that all patterns of a file may be compiled to together. */
enum { MC_NAME_BYTES = 16 << 20 };

/* Compiles a pattern.
 *
 * bytes   what is left of MC_NAME_BYTES; a pattern of names and dots alone takes none.
 * errors  MICA_EFORMAT not a regular expression, or too long; MICA_EUNSUPPORTED there are not
 *         enough bytes; MICA_ENOMEM */
mica_status mc_name_pattern_compile(mc_str pattern, size_t *bytes, mc_name_pattern **out);
void mc_name_pattern_free(mc_name_pattern *pattern); /* does nothing for NULL */

/* The steps that all matches with the patterns of a file may take together. What an item of a
 * pattern takes grows with the name, for it may read all of it. */
enum { MC_NAME_STEPS = 10000000 };

/* Whether the pattern matches the whole name or all that follows one of its dots: "q_proj" matches
 * "model.layers.0.self_attn.q_proj".
 *
 * steps   what is left of MC_NAME_STEPS; a match takes one or more.
 * errors  MICA_EUNSUPPORTED there are not enough of them, or the name is too long; MICA_ENOMEM
 * source  PEFT's get_pattern_key: re.match(r"(.*\.)?(pattern)$", name) */
mica_status mc_name_matches(const mc_name_pattern *pattern, const char *name, uint32_t *steps,
                            bool *matches);

#endif

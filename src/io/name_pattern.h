/* Patterns of module names, used by PEFT's rank_pattern and alpha_pattern. */
#ifndef IO_NAME_PATTERN_H
#define IO_NAME_PATTERN_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>

/* Whether the pattern, a regular expression, matches the whole name or all that follows one of its
 * dots: "q_proj" matches "model.layers.0.self_attn.q_proj".
 *
 * Supported are literals, dots, [sets], (groups), |, * + ?, ^ $, \d \w \s \. and the like.
 *
 * errors  MICA_EFORMAT not a regular expression, or too long; MICA_EUNSUPPORTED look-around, back
 *         references, {counts}; MICA_ENOMEM
 * source  PEFT's get_pattern_key: re.match(r"(.*\.)?(pattern)$", name) */
mica_status mc_name_matches(mc_str pattern, const char *name, bool *matches);

#endif

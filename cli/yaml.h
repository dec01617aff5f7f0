/* YAML as JSON: what a config of mlx-lm may hold. */
#ifndef CLI_YAML_H
#define CLI_YAML_H

#include "text.h"

/** Writes a YAML document as JSON. Plain words are null, true, false, numbers or texts, as YAML's
 *  core schema has them.
 *
 *  json     receives it.
 *  why      receives the reason if it returns false: bad YAML, or a build without libyaml. */
bool cli_yaml_to_json(const char *text, size_t len, cli_text *json, char *why, size_t why_bytes);

#endif

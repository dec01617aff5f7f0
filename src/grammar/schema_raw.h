/* Arguments of calls in formats that do not write them as JSON: strings may be as they are, up to a
 * mark. Threads: as grammar_build.h. */
#ifndef GRAMMAR_SCHEMA_RAW_H
#define GRAMMAR_SCHEMA_RAW_H

#include "grammar/grammar_json.h"

/* Any members in a form, and what ends them. Their names are letters, digits and _. */
int32_t mc_build_any_members(mc_json_rules *rules, const mc_member_form *form, int32_t next);

#endif

/* A budget for what a model thinks: after so many tokens within a thought the mark that ends it is
 * forced, and the answer goes on behind it. Threads: as session/constraint.h. */
#ifndef GRAMMAR_REASONING_H
#define GRAMMAR_REASONING_H

#include "answer/format.h"
#include "grammar/grammar_constraint.h"

/* Wraps a constraint.
 *
 *  budget   tokens of a thought, from 0; the forced mark is not of it.
 *  is_open  the answer begins within a thought (mc_answer_format_is_open).
 *  inner    what else constrains the answer, thoughts included; NULL: nothing. Taken over, also
 *           with an error.
 *  errors   MICA_EUNSUPPORTED the format marks no thoughts; MICA_EINVAL budget < 0; MICA_ENOMEM */
mica_status mc_reasoning_constrain(mc_grammars *grammars, const mc_answer_format *format,
                                   int64_t budget, bool is_open, mc_constraint *inner,
                                   mc_constraint **constraint);

#endif

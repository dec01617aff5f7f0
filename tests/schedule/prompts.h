/* What the tests of a schedule share: the models, prompts, and calls that must not fail. */
#ifndef SCHEDULE_PROMPTS_H
#define SCHEDULE_PROMPTS_H

#include "schedule/client.h"

extern mica_model *models[2]; /* the default model, exact and fast */

/* Of a group of tests. */
int open_models(void **state);
int close_models(void **state);

/* A family's model of tests/fixtures/families, which has no tokenizer, with another's, in an empty
 * folder. options NULL: two threads. */
mica_model *open_family(const char *dir, const char *name, const mica_model_options *options);

mc_schedule *open_schedule(const mica_model *model, const mc_schedule_options *options);
/* The same as if the processor did not read the memory of the model's device: logits stay there,
 * and caches are swapped out. */
mc_schedule *open_far_schedule(const mica_model *model, const mc_schedule_options *options);
mc_schedule_stats stats_of(mc_schedule *schedule);
void must_submit(client *c, mc_schedule *schedule, const mc_request_options *options);

/* A prompt of n tokens, to be freed; another one for each seed. */
int32_t *make_prompt(size_t n, unsigned seed);

/* A number below n, by a generator of its own. */
unsigned draw(unsigned *seed, unsigned n);

#endif

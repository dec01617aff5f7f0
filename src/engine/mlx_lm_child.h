/* A Python child that runs bridge.py: one for each model of the engine mlx_lm.
 *
 * Requests are answered one at a time, in the order in which they begin. Whoever waits for a reply
 * reads for all: a token goes to the answer that it belongs to. So an answer that nobody reads on
 * delays others until it is complete, but never blocks them.
 *
 * A child that dies, hangs, floods or talks nonsense is an error of all its answers from then on,
 * and is ended at once.
 *
 * Threads: any; the functions of one answer by one thread at a time, cancel excepted. */
#ifndef ENGINE_MLX_LM_CHILD_H
#define ENGINE_MLX_LM_CHILD_H

#include "base/buffer.h"
#include "engine/mlx_lm_python.h"

typedef struct mc_mlx_lm mc_mlx_lm;

/* Starts a child and sends it a request to load: a JSON object without "id" and the closing brace.
 * The request is taken, also after an error.
 *  reply   receives what it replied, closed with mc_json_close.
 *  errors  those of mc_mlx_lm_start and mc_mlx_lm_read_ok */
mica_status mc_mlx_lm_open(const mc_mlx_lm_settings *settings, mc_buffer *request,
                           const mica_cancel *cancel, mc_mlx_lm **child, mc_json_doc **reply);
void mc_mlx_lm_close(mc_mlx_lm **child); /* takes NULL */
int64_t mc_mlx_lm_process_id(const mc_mlx_lm *child);

/* The answer to a request to generate: a JSON object without "id" and the closing brace. The
 * request is taken, also after an error. options: max_tokens, top_logprobs, progress. */
typedef struct mc_mlx_lm_answer mc_mlx_lm_answer;
mica_status mc_mlx_lm_ask(mc_mlx_lm *child, mc_buffer *request, size_t prompt_tokens,
                          const mica_generate_options *options, mc_mlx_lm_answer **answer);

/* As mica_engine's functions. */
mica_status mc_mlx_lm_next(mc_mlx_lm_answer *answer, mica_token *token, mica_finish *finish);
void mc_mlx_lm_cancel(mc_mlx_lm_answer *answer);
const mica_metrics *mc_mlx_lm_metrics(const mc_mlx_lm_answer *answer);
void mc_mlx_lm_drop(mc_mlx_lm_answer *answer);

#endif

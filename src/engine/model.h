/* An open model for the rooms behind: tasks, schedules, the server. Threads: as mica/model.h
 * says. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "answer/format.h"
#include "session/constraint.h"
#include "session/session.h"
#include "text/chat/prompt.h"

/* mica_model_open, but where an engine computes on mica's devices and options name none that is
 * open, it computes on `shared`; other engines are not told of it. NULL: none. */
mica_status mc_model_open(const char *path, const mica_model_options *options, mica_device *shared,
                          mica_model **model);

/* The model for sessions; lives as long as the model.
 * errors  MICA_EUNSUPPORTED its engine computes elsewhere */
mica_status mc_model_local(const mica_model *model, const mc_session_model **local);

/* A session of such a model. errors  as above */
mica_status mc_model_session(const mica_session *session, mc_session **local);

/* Keeps a model open until it is released as often; both take NULL. Returns the model. */
const mica_model *mc_model_retain(const mica_model *model);
void mc_model_release(const mica_model *model);

/* A conversation as ids, freed with mica_free, in the model's chat format. options:
 * of the answer, for template_variables and tools; NULL: none.
 * errors  those of mica_chat for messages */
mica_status mc_model_chat(const mica_model *model, const mica_message *messages, size_t count,
                          const mica_generate_options *options, int32_t **ids, size_t *n);

/* What the options constrain the answer to ids to, for a stream of the model's sessions; NULL: to
 * nothing. The first mask is computed, so that what takes too long is refused here.
 *
 *  is_chat  the ids are a conversation, whose answer may begin with thoughts
 *  errors   those of mica_generate for its constraint */
mica_status mc_model_constrain(const mica_model *model, const int32_t *ids, size_t n, bool is_chat,
                               const mica_generate_options *options, mc_constraint **constraint);

/* The grammars that answers of the model were constrained by (grammar/grammar_constraint.h); live
 * as long as the model. */
struct mc_grammars *mc_model_grammars(const mica_model *model);

/* The text of the model's chat template, "" for none; lives as long as the model. For its built-in
 * chat format there is none. */
mc_str mc_model_template(const mica_model *model);

/* What the model is known to write in its answers; lives as long as the model. */
const mc_answer_format *mc_model_format(const mica_model *model);

/* A conversation in JSON, as the HTTP APIs carry it, as the text of a prompt (text/chat/prompt.h,
 * with the model's chat format). */
mica_status mc_model_render_json(const mica_model *model, const mc_prompt_request *request,
                                 mc_buffer *text);

#endif

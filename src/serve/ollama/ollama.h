/* What ollama's endpoints share. Threads: any. */
#ifndef SERVE_OLLAMA_OLLAMA_H
#define SERVE_OLLAMA_OLLAMA_H

#include "serve/jobs/completion.h"

/* As mc_models_take, of "name" or "name:latest". */
mc_served *mc_ollama_take(mc_exchange *http, mc_str name);

/* A name without :latest behind it. */
mc_str mc_ollama_plain_name(mc_str name);

/* As mc_models_row, of "name" or "name:latest", with http->failure; of a model that a request has
 * made that which it was made of. */
bool mc_ollama_row(mc_exchange *http, mc_str name, mc_arena *arena, mc_model_row *row);

/* Reads keep_alive: seconds, or a duration such as "5m"; negative: MC_KEEP_ALWAYS.
 * returns  false: *failure says why */
bool mc_ollama_read_keep(mc_json keep, int64_t *keep_us, bool *given, mc_failure *failure);

/* Adds the messages of a chat as chat templates take them. *last_is_assistant: so is the last.
 * returns  false: *failure names the place */
bool mc_ollama_messages(mc_json messages, mc_buffer *out, bool *last_is_assistant,
                        mc_failure *failure);

bool mc_ollama_tags(mc_exchange *http);
bool mc_ollama_ps(mc_exchange *http);
bool mc_ollama_version(mc_exchange *http);
enum { MC_OLLAMA_SHOW_FIELDS = 6 };
extern const mc_field mc_ollama_show_fields[MC_OLLAMA_SHOW_FIELDS];
bool mc_ollama_show(mc_exchange *http);

enum { MC_OLLAMA_EMBED_FIELDS = 6, MC_OLLAMA_EMBEDDINGS_FIELDS = 4 };
extern const mc_field mc_ollama_embed_fields[MC_OLLAMA_EMBED_FIELDS];
extern const mc_field mc_ollama_embeddings_fields[MC_OLLAMA_EMBEDDINGS_FIELDS];
bool mc_ollama_embed(mc_exchange *http);
bool mc_ollama_embeddings(mc_exchange *http);

enum { MC_OLLAMA_CREATE_FIELDS = 13, MC_OLLAMA_COPY_FIELDS = 2 };
extern const mc_field mc_ollama_create_fields[MC_OLLAMA_CREATE_FIELDS];
extern const mc_field mc_ollama_copy_fields[MC_OLLAMA_COPY_FIELDS];
bool mc_ollama_create(mc_exchange *http);
bool mc_ollama_copy(mc_exchange *http);

enum { MC_OLLAMA_PULL_FIELDS = 6, MC_OLLAMA_DELETE_FIELDS = 2 };
extern const mc_field mc_ollama_pull_fields[MC_OLLAMA_PULL_FIELDS];
extern const mc_field mc_ollama_delete_fields[MC_OLLAMA_DELETE_FIELDS];
bool mc_ollama_pull(mc_exchange *http);
bool mc_ollama_delete(mc_exchange *http);

#endif

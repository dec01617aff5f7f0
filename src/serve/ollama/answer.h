/* The requests for answers of ollama's API: /api/chat and /api/generate. Threads: any. */
#ifndef SERVE_OLLAMA_ANSWER_H
#define SERVE_OLLAMA_ANSWER_H

#include "serve/common/generation.h"
#include "serve/http/exchange.h"

typedef struct mc_ollama_answer {
    mc_generation generation;
    int64_t num_predict; /* 0 or less: no limit */
    int64_t num_ctx;     /* 0: the model's */
    int64_t top_logprobs;
    bool logprobs;
    mc_json think, keep_alive, format;
    mc_json tools, messages;       /* of a chat */
    mc_str prompt, system, suffix; /* of a generation */
    bool raw;
} mc_ollama_answer;

enum { MC_OLLAMA_ANSWER_FIELDS = 10, MC_OLLAMA_CHAT_FIELDS = 2, MC_OLLAMA_GENERATE_FIELDS = 10 };
extern const mc_field mc_ollama_answer_fields[MC_OLLAMA_ANSWER_FIELDS]; /* of both */
extern const mc_field mc_ollama_chat_fields[MC_OLLAMA_CHAT_FIELDS];
extern const mc_field mc_ollama_generate_fields[MC_OLLAMA_GENERATE_FIELDS];

/* The options of an answer to a prompt of n tokens, with num_ctx as a limit of both together.
 *
 *  context  the model's.
 *  vocab, arena  as for mc_generation_options.
 *  returns  false: *failure says why */
bool mc_ollama_options(const mc_ollama_answer *values, size_t n, int64_t context, size_t vocab,
                       mc_arena *arena, mica_generate_options *options, mc_failure *failure);

/* Whether an object has options that a request may have. false: *failure says why */
bool mc_ollama_check_parameters(mc_json parameters, mc_failure *failure);

/* Sets those options of a request that it does not give, and `parameters` does. */
bool mc_ollama_take_parameters(mc_json body, mc_json parameters, mc_ollama_answer *values,
                               mc_failure *failure);

bool mc_ollama_chat(mc_exchange *http);
bool mc_ollama_generate(mc_exchange *http);

#endif

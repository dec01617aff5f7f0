/* The requests for texts of llama.cpp's server: /completion and /infill. Threads: any. */
#ifndef SERVE_LLAMA_CPP_SERVER_H
#define SERVE_LLAMA_CPP_SERVER_H

#include "serve/common/generation.h"

typedef struct mc_llama_values {
    mc_generation generation;
    int64_t n_predict, n_probs;
    mc_str grammar;
    mc_json schema;
    bool return_tokens;
    mc_json prompt; /* of /completion */
    mc_str begun;   /* the prompt of /infill */
    mc_str input_prefix, input_suffix;
    mc_json input_extra;
} mc_llama_values;

enum { MC_LLAMA_FIELDS = 44, MC_LLAMA_COMPLETION_FIELDS = 1, MC_LLAMA_INFILL_FIELDS = 4 };
extern const mc_field mc_llama_fields[MC_LLAMA_FIELDS]; /* of both */
extern const mc_field mc_llama_completion_fields[MC_LLAMA_COMPLETION_FIELDS];
extern const mc_field mc_llama_infill_fields[MC_LLAMA_INFILL_FIELDS];

/* The options of an answer, as mc_generation_options. */
bool mc_llama_options(const mc_llama_values *values, size_t vocab, mc_arena *arena,
                      mica_generate_options *options, mc_failure *failure);

#endif

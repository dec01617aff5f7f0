/* From text and messages to token ids, and the ids at which answers stop: what a model folder says
 * beside the weights. Threads: never changes once open. */
#ifndef ENGINE_PROMPT_H
#define ENGINE_PROMPT_H

#include "base/buffer.h"
#include "base/status.h"

#include <mica/model.h>

typedef struct mc_prompt {
    mica_tokenizer *tokenizer;
    mc_buffer stops; /* int32: eos ids of generation_config.json and config.json */
    char *bos;       /* text of the token that begins a prompt, "" for none */
} mc_prompt;

/* Reads tokenizer.json, config.json and, where it is there, generation_config.json.
 * errors  those of mica_tokenizer_open and io/config.h */
mica_status mc_prompt_open(const char *folder, mc_prompt *prompt);
void mc_prompt_close(mc_prompt *prompt); /* takes a zeroed one */

/* Messages to ids (freed with mica_free) in a built-in chat format. options: of the answer, for its
 * template's variables and tools; NULL: none.
 * errors  MICA_EUNSUPPORTED format is NULL or unknown, or there are variables or tools: no built-in
 *         format has them; MICA_EINVAL, MICA_EFORMAT, MICA_ENOMEM */
mica_status mc_prompt_chat(const mc_prompt *prompt, const char *format,
                           const mica_message *messages, size_t count,
                           const mica_generate_options *options, int32_t **ids, size_t *n);

#endif

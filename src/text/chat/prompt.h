/* From text and messages to token ids, and the ids at which answers stop: what a model folder says
 * beside the weights. Threads: never changes once open. */
#ifndef TEXT_CHAT_PROMPT_H
#define TEXT_CHAT_PROMPT_H

#include "base/buffer.h"
#include "base/status.h"
#include "text/chat/chat_template.h"

#include <mica/model.h>

typedef struct mc_prompt {
    mica_tokenizer *tokenizer;
    mc_buffer stops;        /* int32: eos ids of generation_config.json and config.json */
    char *bos;              /* text of the token that begins a prompt, "" for none */
    mc_chat_template *chat; /* the folder's own; NULL: none */
    char *chat_error;       /* why the folder's own cannot be used; NULL: nothing is wrong */
} mc_prompt;

/* Reads tokenizer.json, config.json and, where they are there, generation_config.json and a chat
 * template. One that is ill-formed is no error here: who does not chat does not need it.
 * chat_template  taken instead of the folder's; an error where it is ill-formed. NULL: none
 * errors         those of mica_tokenizer_open, io/config.h and mc_chat_template_load */
mica_status mc_prompt_open(const char *folder, const char *chat_template, mc_prompt *prompt);
void mc_prompt_close(mc_prompt *prompt); /* takes a zeroed one */

/* Messages to ids (freed with mica_free) by the folder's own template or else, without variables
 * and tools, in a built-in chat format. options: of the answer, for the template's variables, tools
 * and cancel; NULL: none.
 * errors  MICA_EUNSUPPORTED there is no template, and format is NULL or unknown, or there are
 *         variables or tools; MICA_EINVAL what the template or format refuses; MICA_EFORMAT the
 *         template, its variables or tools are ill-formed; MICA_ECANCELLED, MICA_ENOMEM */
mica_status mc_prompt_chat(const mc_prompt *prompt, const char *format,
                           const mica_message *messages, size_t count,
                           const mica_generate_options *options, int32_t **ids, size_t *n);

#endif

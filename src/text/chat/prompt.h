/* The part of a model folder beside the weights: it turns text and messages to token ids, and has
 * the ids at which answers stop. Threads: an open one never changes. */
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
    char *chat_error; /* why the folder's own cannot be used; NULL: it can, or there is none */
} mc_prompt;

/* Reads tokenizer.json, config.json and, if they exist, generation_config.json and a chat template.
 * An ill-formed template of the folder is an error only when it is used, by mc_prompt_chat.
 * chat_template  used instead of the folder's; an error if it is ill-formed. NULL: the folder's
 * errors         those of mica_tokenizer_open, io/config.h and mc_chat_template_load */
mica_status mc_prompt_open(const char *folder, const char *chat_template, mc_prompt *prompt);
void mc_prompt_close(mc_prompt *prompt); /* does nothing for a zeroed one */

/* Renders messages in the built-in chat format `format`, as mc_chat_render does.
 * errors  MICA_EUNSUPPORTED format is NULL or unknown; those of mc_chat_render */
mica_status mc_prompt_render(const mc_prompt *prompt, const char *format,
                             const mc_chat_message *messages, size_t count,
                             bool add_generation_prompt, mc_buffer *text);

/* Turns messages to ids (freed with mica_free) by the folder's own template, else by the built-in
 * chat format `format`, which takes no variables and tools. options: those of the answer, for the
 * template's variables, tools and cancel; NULL: none.
 * errors  MICA_EUNSUPPORTED there is no template, and format is NULL or unknown, or there are
 *         variables or tools; MICA_EINVAL the template or format refuses the messages; MICA_EFORMAT
 *         the template, its variables or tools are ill-formed; MICA_ECANCELLED, MICA_ENOMEM */
mica_status mc_prompt_chat(const mc_prompt *prompt, const char *format,
                           const mica_message *messages, size_t count,
                           const mica_generate_options *options, int32_t **ids, size_t *n);

#endif

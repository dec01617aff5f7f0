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
    /* int32: eos ids of generation_config.json and config.json, and the tokenizer's eos_token */
    mc_buffer stops;
    char *bos;              /* text of the token that begins a prompt, "" for none */
    mc_chat_template *chat; /* the folder's own; NULL: none */
    char *chat_error; /* why the folder's own cannot be used; NULL: it can, or there is none */
} mc_prompt;

/* Reads tokenizer.json, config.json and, if they exist, generation_config.json and a chat template.
 * An ill-formed template of the folder is an error only when it is used, by mc_prompt_text.
 * chat_template  used instead of the folder's; an error if it is ill-formed. NULL: the folder's
 * errors         those of mica_tokenizer_open, io/config.h and mc_chat_template_load */
mica_status mc_prompt_open(const char *folder, const char *chat_template, mc_prompt *prompt);
void mc_prompt_close(mc_prompt *prompt); /* does nothing for a zeroed one */

/* A raw text as ids, freed with mica_free: as mica_tokenizer_encode with add_special, but a text
 * that begins with the tokens that this puts before it (<bos>) gets no second ones.
 * errors  those of mica_tokenizer_encode
 * source  the behaviour of mlx-lm's generate */
mica_status mc_prompt_encode(const mica_tokenizer *tok, const char *text, size_t len, int32_t **ids,
                             size_t *n);

/* Renders messages in the built-in chat format `format`, as mc_chat_render does.
 * errors  MICA_EUNSUPPORTED format is NULL or unknown; those of mc_chat_render */
mica_status mc_prompt_render(const mc_prompt *prompt, const char *format,
                             const mc_chat_message *messages, size_t count,
                             bool add_generation_prompt, mc_buffer *text);

/* Turns messages to the text of a prompt by the folder's own template, else by the built-in chat
 * format `format`, which takes no variables: as mc_prompt_render_json does those of JSON, with
 * their tools. options: those of the answer, for the template's variables, tools, continue_last and
 * cancel; NULL: none.
 * errors  MICA_EUNSUPPORTED there is no template, and format is NULL or unknown, or there are
 *         variables; MICA_EINVAL the template or format refuses the messages, or one has a NULL
 *         member; MICA_EFORMAT messages are not UTF-8, the template, its variables or tools are
 *         ill-formed; MICA_ECANCELLED, MICA_ENOMEM */
mica_status mc_prompt_text(const mc_prompt *prompt, const char *format,
                           const mica_message *messages, size_t count,
                           const mica_generate_options *options, mc_buffer *text);

/* Encodes the text of a prompt, which holds its special tokens, to ids, freed with mica_free. */
mica_status mc_prompt_encode_rendered(const mc_prompt *prompt, const mc_buffer *text, int32_t **ids,
                                      size_t *n);

/* A conversation in JSON, and how it is rendered. All is borrowed. */
typedef struct mc_prompt_request {
    const char *messages; /* [messages_len] a JSON array: see text/chat/chat_json.h */
    size_t messages_len;
    const char *tools;         /* a JSON array, as mica_generate_options.tools; NULL: none */
    const char *variables;     /* a JSON object of the template's variables; NULL: none */
    bool open;                 /* no beginning of the model's turn behind the messages */
    bool continue_last;        /* the answer continues the last message, the assistant's */
    bool *in_thoughts;         /* receives whether it continues thoughts; NULL: not asked */
    const mica_cancel *cancel; /* NULL: none */
} mc_prompt_request;

/* Turns messages in JSON to the text of a prompt, which holds special tokens: encode it without
 * adding any. A template that does not take a call's arguments as an object gets them as text. One
 * that has no place for tools gets them in the system message (text/chat/chat_tools.h). One that
 * refuses the order of roles, or leaves a later system message out, gets another order
 * (text/chat/chat_roles.h).
 * errors  those of mc_prompt_text, mc_chat_json_read and mc_chat_json_cut */
mica_status mc_prompt_render_json(const mc_prompt *prompt, const char *format,
                                  const mc_prompt_request *request, mc_buffer *text);

#endif

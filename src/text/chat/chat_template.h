/* A model folder's own chat template: found, parsed once, rendered for conversations.
 *
 * Where it is looked for, the first that is there being taken:
 *     chat_template.jinja     the template
 *     tokenizer_config.json   "chat_template": the template, or a list of {"name", "template"}
 *     chat_template.json      "chat_template", likewise
 * A template that is given is taken instead of all of these.
 *
 * Of several, "tool_use" is for conversations with tools and "default" for all others. The texts
 * of special tokens (bos_token, eos_token ...) are those of tokenizer_config.json.
 *
 * Threads: never changes once loaded; may be rendered by any number of threads.
 * Source: the behaviour of transformers' apply_chat_template. */
#ifndef TEXT_CHAT_CHAT_TEMPLATE_H
#define TEXT_CHAT_CHAT_TEMPLATE_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/status.h"
#include "text/chat/chat.h"

#include <time.h>

typedef struct mc_chat_template mc_chat_template;

/* given: a template, taken instead of the folder's; NULL: none. *out is NULL where there is no
 * template; closed by mc_chat_template_close.
 *
 * errors  MICA_EFORMAT with file, line and cause: a template that is none, JSON that is none, a
 *         list without "default"; MICA_EIO, MICA_ENOMEM */
mica_status mc_chat_template_load(const char *folder, const char *given, mc_chat_template **out);
void mc_chat_template_close(mc_chat_template **t); /* takes a pointer to NULL */

/* What a template is rendered for. All is borrowed, all text is UTF-8. */
typedef struct mc_chat_request {
    const mc_chat_message *messages; /* [count] */
    size_t count;
    const char *messages_json; /* a JSON array, instead of messages; NULL: none */
    const char *tools;         /* a JSON array; NULL: none */
    const char *variables;     /* a JSON object of more variables; NULL: none */
    bool add_generation_prompt;
    const char *bos; /* bos_token, where the folder has no tokenizer_config.json; may be NULL */
    const struct tm *now;      /* what strftime_now tells; NULL: it is not defined */
    const mica_cancel *cancel; /* watched; NULL: none */
} mc_chat_request;

/* Adds the prompt to out, special tokens as text: encode it with add_special false.
 *
 * errors  MICA_EINVAL what the template itself raised, with its text, or a message without role or
 *         content; MICA_EFORMAT messages, tools or variables that are not JSON of that kind, or a
 *         template that takes too long or makes too much; MICA_ECANCELLED, MICA_ENOMEM. out is
 *         then as it was */
mica_status mc_chat_template_render(const mc_chat_template *t, const mc_chat_request *request,
                                    mc_buffer *out);

#endif

/* A model folder's own chat template. It is parsed once and rendered for each conversation.
 *
 * The template is the caller's, if there is one, else the first of:
 *     chat_template.jinja     the template
 *     tokenizer_config.json   "chat_template": the template, or a list of {"name", "template"}
 *     chat_template.json      "chat_template", the same
 *
 * In a list, "tool_use" is for conversations with tools and "default" for all others. The texts of
 * special tokens (bos_token, eos_token ...) are those of tokenizer_config.json, or where that does
 * not name them of special_tokens_map.json.
 *
 * Threads: a loaded template never changes; any number of threads may render it.
 * Source: the behaviour of transformers' apply_chat_template. */
#ifndef TEXT_CHAT_CHAT_TEMPLATE_H
#define TEXT_CHAT_CHAT_TEMPLATE_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/status.h"
#include "base/str.h"
#include "text/chat/chat.h"

#include <time.h>

typedef struct mc_chat_template mc_chat_template;

/* given  the caller's template; NULL: the folder's is loaded.
 * out    closed by mc_chat_template_close; NULL: there is no template.
 *
 * errors  MICA_EFORMAT with file, line and cause: a malformed template, malformed JSON, a list
 *         without "default"; MICA_EIO, MICA_ENOMEM */
mica_status mc_chat_template_load(const char *folder, const char *given, mc_chat_template **out);
void mc_chat_template_close(mc_chat_template **t); /* does nothing for a pointer to NULL */

/* The text of the template; of the one for tools, if there are two. Lives as long as it. */
mc_str mc_chat_template_source(const mc_chat_template *t);

/* Whether the template's text has the word "developer", a role that most do not know. */
bool mc_chat_template_has_developer(const mc_chat_template *t);

/* The input of a template. All is borrowed, all text is UTF-8. */
typedef struct mc_chat_request {
    const char *messages;  /* a JSON array */
    const char *tools;     /* a JSON array; NULL: none */
    const char *variables; /* a JSON object of more variables; NULL: none */
    bool add_generation_prompt;
    const char *bos;      /* bos_token if the folder has no tokenizer_config.json; may be NULL */
    const struct tm *now; /* what strftime_now tells; NULL: it is not defined */
    const mica_cancel *cancel; /* watched; NULL: none */
} mc_chat_request;

/* Adds the prompt to out, with the special tokens as text: encode it with add_special false.
 *
 * errors  MICA_EINVAL the template raised an error (with its text); MICA_EFORMAT messages, tools or
 *         variables are not JSON of the wanted type, or the template exceeds its limits;
 *         MICA_ECANCELLED, MICA_ENOMEM. out is then unchanged */
mica_status mc_chat_template_render(const mc_chat_template *t, const mc_chat_request *request,
                                    mc_buffer *out);

#endif

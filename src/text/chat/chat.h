/* Built-in chat formats: messages to the prompt text that a family was trained on.
 *
 * For models that bring no template, and for families whose format is fixed. Threads: safe. */
#ifndef TEXT_CHAT_CHAT_H
#define TEXT_CHAT_CHAT_H

#include "base/buffer.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct mc_chat_message {
    const char *role;    /* "system", "user", "assistant", "model" */
    const char *content; /* UTF-8 */
} mc_chat_message;

/* A row a format: its name here and in chat.c, where render_<name> is. */
#define MC_CHAT_FORMATS(X) X(GEMMA, gemma) X(CHATML, chatml) X(LLAMA3, llama3)

typedef enum mc_chat_format {
#define MC_CHAT_FORMAT(upper, lower) MC_CHAT_##upper,
    MC_CHAT_FORMATS(MC_CHAT_FORMAT)
#undef MC_CHAT_FORMAT
} mc_chat_format;

/* Adds the prompt to out. It holds the special tokens as text, `bos` (such as "<bos>", may be "")
 * first where the format has one, which ChatML has not: encode it with add_special false.
 *
 *  messages               n > 0. For Gemma a first message of role system goes into the first user
 *                         turn; the others have turns of any role, in any order.
 *  add_generation_prompt  end with the beginning of the model's turn.
 *  errors  MICA_EINVAL no messages, a NULL in one, roles that do not alternate (Gemma);
 *          MICA_ENOMEM. out is then as it was
 *  source  the chat templates of the families' own model folders */
mica_status mc_chat_render(mc_chat_format format, const mc_chat_message *messages, size_t n,
                           const char *bos, bool add_generation_prompt, mc_buffer *out);

#endif

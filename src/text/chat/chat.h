/* Built-in chat formats: they turn messages to the prompt text that a family was trained on.
 *
 * They are for models without a template and for families with a fixed format. Threads: safe. */
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

/* The formats. A row is the name of the enum and of render_<name> in chat.c. */
#define MC_CHAT_FORMATS(X) X(GEMMA, gemma) X(CHATML, chatml) X(LLAMA3, llama3) X(HARMONY, harmony)

typedef enum mc_chat_format {
#define MC_CHAT_FORMAT(upper, lower) MC_CHAT_##upper,
    MC_CHAT_FORMATS(MC_CHAT_FORMAT)
#undef MC_CHAT_FORMAT
} mc_chat_format;

/* Adds the prompt to out. The prompt contains the special tokens as text: encode it with
 * add_special false. It begins with `bos` (such as "<bos>", or ""), except in ChatML and
 * harmony.
 *
 *  messages               n > 0. Gemma puts a first message of role system into the first user
 *                         turn; the other formats take any roles in any order.
 *  add_generation_prompt  end with the beginning of the model's turn.
 *  errors  MICA_EINVAL no messages, a message with a NULL member, roles that do not alternate
 *          (Gemma); MICA_ENOMEM. out is then unchanged
 *  source  the chat templates of the families' own model folders */
mica_status mc_chat_render(mc_chat_format format, const mc_chat_message *messages, size_t n,
                           const char *bos, bool add_generation_prompt, mc_buffer *out);

#endif

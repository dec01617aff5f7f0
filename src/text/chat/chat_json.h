/* Conversations as the HTTP APIs carry them, made what templates take.
 *
 * A message is an object of
 *     role               text
 *     content            text, null, or parts {"type": "text", "text": ...}
 *     name               text
 *     reasoning_content  text: what the assistant thought
 *     tool_calls         [{"id", "type": "function", "function": {"name", "arguments"}}], where
 *                        arguments are an object or the text of one; a text that is no JSON,
 *                        as of a call that was cut off, is what templates get
 *     tool_call_id       text: the call that a message of role tool answers
 * Members that are null or empty arrays count as absent, and so do cache_control, annotations and
 * reasoning_details, which change no answer. All else is refused by name, because a template would
 * drop it silently.
 *
 * Threads: safe. */
#ifndef TEXT_CHAT_CHAT_JSON_H
#define TEXT_CHAT_CHAT_JSON_H

#include "base/buffer.h"
#include "base/status.h"
#include "text/chat/chat.h"

/* What templates take as the arguments of a call: most an object, some its text. */
typedef enum mc_arguments { MC_ARGUMENTS_OBJECT, MC_ARGUMENTS_TEXT } mc_arguments;

typedef struct mc_chat_json { /* zero is empty */
    mc_buffer json;           /* the messages, as a JSON array */
    mc_buffer last;           /* the content of the last message */
    bool calls;               /* some message has tool calls */
    bool last_is_assistant;
    bool marked; /* the end of the last message's thoughts, for mc_chat_json_cut */
} mc_chat_json;

/* Reads a JSON array of messages. Contents in parts become one text, a line break between two, as
 * vLLM and llama.cpp join them; absent contents become "".
 *
 *  developer  whether the role "developer" is left as it is; else it becomes "system".
 *  continues  whether mc_chat_json_cut follows.
 *  errors     MICA_EFORMAT not a JSON array of such messages; MICA_EUNSUPPORTED a member or part
 *             that is not supported, such as images and audio. Texts name the place:
 *             "messages[1].content[0]: ...". MICA_ENOMEM. conversation must be freed, too */
mica_status mc_chat_json_read(const char *messages, size_t len, mc_arguments arguments,
                              bool developer, bool continues, mc_chat_json *conversation);
void mc_chat_json_deinit(mc_chat_json *conversation);

/* The messages for a built-in chat format, which has no tool calls. Both are freed with
 * mc_chat_json_free_messages.
 * errors  MICA_EUNSUPPORTED a message has members that the formats do not have; MICA_ENOMEM */
mica_status mc_chat_json_messages(const mc_chat_json *conversation, mc_chat_message **messages,
                                  size_t *count);
void mc_chat_json_free_messages(mc_chat_message *messages, size_t count);

/* Cuts a rendered prompt behind the last message's content, so that an answer continues it. White
 * space at its end stays only if the template keeps it. A message without a content or calls is
 * cut behind its thoughts.
 * errors  MICA_EINVAL the last message is not the assistant's, or has neither; the template changes
 *         the content, or leaves out the thoughts
 * source  the behaviour of transformers' continue_final_message */
mica_status mc_chat_json_cut(const mc_chat_json *conversation, mc_buffer *text);

#endif

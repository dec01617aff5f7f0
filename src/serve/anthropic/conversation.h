/* Anthropic's conversations, made what chat templates take (text/chat/chat_json.h).
 *
 * A message is {"role": "user" | "assistant" | "system", "content": text or blocks}. Blocks are
 *     text         {"text"}
 *     thinking     {"thinking", "signature"}, of the assistant: its reasoning_content
 *     tool_use     {"id", "name", "input"}, of the assistant: one of its tool_calls
 *     tool_result  {"tool_use_id", "content", "is_error"}, of the user: a message of role tool.
 *                  Where it is an error, a line "Error:" comes before its content
 * and any of them may have cache_control. Other blocks and members are refused by name.
 *
 * Messages of one role after another become one. Threads: any. */
#ifndef SERVE_ANTHROPIC_CONVERSATION_H
#define SERVE_ANTHROPIC_CONVERSATION_H

#include "base/json.h"
#include "serve/common/failure.h"

/* Adds a conversation as a JSON array.
 *
 *  system     text, text blocks, or MC_JSON_NONE.
 *  messages   an array.
 *  continues  receives whether the last message is the assistant's, which the answer continues.
 *  returns    false: *failure names the place */
bool mc_anthropic_conversation(mc_json system, mc_json messages, mc_buffer *out, bool *continues,
                               mc_failure *failure);

/* Checks a cache_control: {"type": "ephemeral", "ttl": "5m" | "1h"}, or none. Prompts are kept
 * without it, and those used least recently go first, so it changes nothing. place: its name. */
bool mc_anthropic_check_cache(mc_json control, const char *place, mc_failure *failure);

#endif

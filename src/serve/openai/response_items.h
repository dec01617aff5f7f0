/* The items of OpenAI's responses, as the messages of a conversation that chat templates take
 * (text/chat/chat_json.h). Threads: one at a time. */
#ifndef SERVE_OPENAI_RESPONSE_ITEMS_H
#define SERVE_OPENAI_RESPONSE_ITEMS_H

#include "base/buffer.h"
#include "base/json.h"
#include "serve/common/failure.h"
#include "serve/openai/response_seal.h"

/* Adds a text or an array of items to a conversation:
 *
 *     message               role user, assistant, system or developer; content text, or parts
 *                           input_text, output_text and refusal
 *     reasoning             what the assistant thought; of a summary, if there is nothing else
 *     function_call         call_id, name, arguments
 *     function_call_output  call_id, output
 *
 * What the assistant said between two messages of others becomes one message of a thought, a text
 * and calls, as far as it comes in this order; a text behind calls is put to that before them.
 *
 *  seal      opens sealed thoughts, which are read where they are not told; key NULL: they are
 *            refused.
 *  messages  JSON objects with commas between them; may hold some already.
 *  returns   false: *failure names the item at fault: "input[1].content[0]: ..." */
bool mc_response_items_read(mc_json input, const mc_response_seal *seal, mc_buffer *messages,
                            mc_failure *failure);

#endif

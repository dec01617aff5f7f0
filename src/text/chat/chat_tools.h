/* Tools for chat formats that have none: their descriptions become part of the system message,
 * calls become the assistant's text, and results the user's. What is asked for is JSON that answers
 * in parts (answer/splitter.h) are read for in every format.
 *
 * Threads: safe. */
#ifndef TEXT_CHAT_CHAT_TOOLS_H
#define TEXT_CHAT_CHAT_TOOLS_H

#include "text/chat/chat_json.h"

/* Rewrites a conversation that was read.
 *
 *  tools   a JSON array of tools; NULL, or an empty one: only messages are rewritten.
 *  errors  MICA_EFORMAT tools is none; MICA_ENOMEM */
mica_status mc_chat_tools_write(mc_chat_json *conversation, const char *tools);

#endif

/* Conversations in the shape that a chat template takes, as far as its text shows that: what a
 * call's id may be, where thoughts and tools are, whether a message of calls alone has a content.
 *
 * Threads: safe. */
#ifndef TEXT_CHAT_CHAT_SHAPE_H
#define TEXT_CHAT_CHAT_SHAPE_H

#include "base/str.h"
#include "text/chat/chat_json.h"

/* Rewrites a conversation that was read.
 *
 *  source  the template's text.
 *  tools   a JSON array; NULL: none. It becomes text of the system message, where the template
 *          looks for it there.
 *  errors  MICA_ENOMEM */
mica_status mc_chat_shape_write(mc_chat_json *conversation, mc_str source, const char *tools);

/* The variable by which a template turns thoughts on and off, for which callers say
 * enable_thinking. */
typedef struct mc_chat_switch {
    const char *name;     /* NULL: it has none */
    const char *words[2]; /* for false and true; NULL: these themselves */
} mc_chat_switch;
mc_chat_switch mc_chat_shape_switch(mc_str source);

/* The variable for how hard a model thinks, for which callers say reasoning_effort; NULL: the
 * template has none. And of the words that the template takes the one nearest to a caller's, the
 * lower of two; the caller's own where it takes any. */
const char *mc_chat_shape_effort(mc_str source);
mc_str mc_chat_shape_effort_word(mc_str source, mc_str word);

/* The name of the variable for how hard it thinks, or else for whether; NULL: it has neither. */
const char *mc_chat_shape_variable(mc_str source);

#endif

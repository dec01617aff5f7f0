/* Conversations for templates that take only some orders of roles. Agents send system messages in
 * the middle of a conversation, several at its beginning, and two messages of the user in a row;
 * many templates refuse these, or leave some of them out.
 *
 * Threads: safe. */
#ifndef TEXT_CHAT_CHAT_ROLES_H
#define TEXT_CHAT_CHAT_ROLES_H

#include "base/str.h"
#include "text/chat/chat_json.h"

/* What a conversation is made, each for templates that refuse what stands before it. */
typedef enum mc_chat_roles {
    MC_ROLES_GIVEN,   /* nothing */
    MC_ROLES_JOINED,  /* system messages at the beginning are one, later ones are the user's, and
                         messages of one role in a row are one; results of tools stay alone */
    MC_ROLES_RESULTS, /* the same, and a system message behind a tool's result is part of that */
    MC_ROLES_USER     /* the same, and the system messages at the beginning are the user's */
} mc_chat_roles;

enum { MC_ROLES_COUNT = 4 };

/* Rewrites a conversation that was read. *changed: it was not so before.
 *  errors  MICA_ENOMEM */
mica_status mc_chat_roles_write(mc_chat_json *conversation, mc_chat_roles roles, bool *changed);

/* Whether a rendered text has what the system messages say, but for that at the beginning, which
 * a template may leave out as it likes.
 *  errors  MICA_ENOMEM */
mica_status mc_chat_roles_shown(const mc_chat_json *conversation, mc_str text, bool *shown);

#endif

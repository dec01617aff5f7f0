#define _POSIX_C_SOURCE 200809L
#include "conversation.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

/* Puts a message at a place, those after it one further. */
static bool insert(cli_conversation *c, size_t at, const char *role, const char *content) {
    if (c->count == c->room) {
        size_t room = c->room * 2 + 8;
        mica_message *grown = realloc(c->messages, room * sizeof *grown);
        if (!grown) {
            cli_fail("out of memory");
            return false;
        }
        c->messages = grown;
        c->room = room;
    }
    char *copy = strdup(content);
    if (!copy) {
        cli_fail("out of memory");
        return false;
    }
    memmove(c->messages + at + 1, c->messages + at, (c->count - at) * sizeof *c->messages);
    c->messages[at] = (mica_message){role, copy};
    c->count++;
    return true;
}

static void discard(cli_conversation *c, size_t at) {
    free((char *)(uintptr_t)c->messages[at].content);
    c->count--;
    memmove(c->messages + at, c->messages + at + 1, (c->count - at) * sizeof *c->messages);
}

bool cli_conversation_add(cli_conversation *c, const char *role, const char *content) {
    return insert(c, c->count, role, content);
}

void cli_conversation_drop(cli_conversation *c) {
    discard(c, c->count - 1);
}

const char *cli_conversation_system(const cli_conversation *c) {
    bool has = c->count > 0 && strcmp(c->messages[0].role, "system") == 0;
    return has ? c->messages[0].content : NULL;
}

bool cli_conversation_set_system(cli_conversation *c, const char *content) {
    if (cli_conversation_system(c)) discard(c, 0);
    return !*content || insert(c, 0, "system", content);
}

void cli_conversation_clear(cli_conversation *c) {
    size_t keep = cli_conversation_system(c) ? 1 : 0;
    while (c->count > keep)
        cli_conversation_drop(c);
}

void cli_conversation_deinit(cli_conversation *c) {
    while (c->count > 0)
        cli_conversation_drop(c);
    free(c->messages);
    *c = (cli_conversation){0};
}

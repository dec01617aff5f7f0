#define _POSIX_C_SOURCE 200809L
#include "conversation.h"

#include "json.h"
#include "report.h"
#include "text.h"
#include "ui.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Inserts a message at an index. */
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
    c->messages[at] = (mica_message){.role = role, .content = copy};
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

bool cli_conversation_replace(cli_conversation *c, const char *content) {
    if (!insert(c, c->count, c->messages[c->count - 1].role, content)) return false;
    discard(c, c->count - 2);
    return true;
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
    free(c->model);
    free(c->adapter);
    *c = (cli_conversation){0};
}

/* ---- files ---- */

bool cli_conversation_save(const cli_conversation *c, const char *path, const char *model,
                           const char *adapter, bool quiet) {
    cli_text text = {0};
    if (model) {
        cli_text_printf(&text, "{\"model\": ");
        cli_text_append_json(&text, model, strlen(model));
        if (adapter) cli_text_printf(&text, ", \"adapter\": ");
        if (adapter) cli_text_append_json(&text, adapter, strlen(adapter));
        cli_text_printf(&text, "}\n");
    }
    for (size_t i = 0; i < c->count; i++) {
        const mica_message *m = &c->messages[i];
        cli_text_printf(&text, "{\"role\": \"%s\", \"content\": ", m->role);
        cli_text_append_json(&text, m->content, strlen(m->content));
        cli_text_printf(&text, "}\n");
    }
    mica_status status = text.failed ? MICA_ENOMEM : mica_file_save(path, text.data, text.len);
    if (!text.failed && status != MICA_OK && !quiet) cli_fail_status(status);
    free(text.data);
    return status == MICA_OK;
}

/* Returns a role by its name, in static storage; NULL if there is none. */
static const char *find_role(const char *name) {
    static const char *const roles[] = {"system", "user", "assistant"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i], name) == 0) return roles[i];
    return NULL;
}

/* Replaces `*text` by a member's string, NULL if there is no member.  returns false if the member
 * is not a string or memory is out */
static bool load_text(const cli_json_node *node, char **text) {
    free(*text);
    *text = node && node->kind == CLI_JSON_STRING ? strdup(node->text) : NULL;
    return !node || *text;
}

/* Reads a first line {"model": ..., "adapter": ...}.  returns false if it is not one or memory is
 * out */
static bool load_model(cli_conversation *c, const cli_json *json) {
    const cli_json_node *model = cli_json_find(json, &json->nodes[0], "model");
    const cli_json_node *adapter = cli_json_find(json, &json->nodes[0], "adapter");
    return model && load_text(model, &c->model) && load_text(adapter, &c->adapter);
}

/* Appends the message of one line. */
static bool load_line(cli_conversation *c, const char *line, size_t len, const char *path,
                      size_t number) {
    cli_json json = {0};
    const char *why = "it is not a message: {\"role\": ..., \"content\": ...}";
    const cli_json_node *role = NULL, *content = NULL;
    if (memchr(line, '\0', len)) {
        why = "it holds a NUL byte";
    } else if (cli_json_parse(&json, line, len, &why)) {
        role = cli_json_find(&json, &json.nodes[0], "role");
        content = cli_json_find(&json, &json.nodes[0], "content");
    }
    const char *known = role ? find_role(role->text) : NULL;
    bool valid = known && content && content->kind == CLI_JSON_STRING;
    bool added = valid ? cli_conversation_add(c, known, content->text)
                       : !role && json.count > 0 && load_model(c, &json);
    if (!valid && !added) cli_fail("%s, line %zu: %s", path, number, why);
    cli_json_deinit(&json);
    return added;
}

bool cli_conversation_load(cli_conversation *c, const char *path) {
    cli_text text = {0};
    cli_conversation loaded = {0};
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { /* reading a FIFO could block for
                                                               ever */
        cli_fail("cannot read %s: it is not a regular file", path);
        return false;
    }
    bool good = cli_text_read_file(&text, CLI_TEXT_OF_CONVERSATION, path);
    size_t number = 1;
    for (size_t at = 0; good && at < text.len; number++) {
        const char *line = text.data + at, *feed = memchr(line, '\n', text.len - at);
        size_t len = feed ? (size_t)(feed - line) : text.len - at;
        if (len > 0) good = load_line(&loaded, line, len, path, number);
        at += len + 1;
    }
    free(text.data);
    if (!good) {
        cli_conversation_deinit(&loaded);
        return false;
    }
    cli_conversation_deinit(c);
    *c = loaded;
    return true;
}

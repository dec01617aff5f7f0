#include "json.h"

#include <string.h>

static bool write_text(const char *text, cli_text *out) {
    return cli_text_append(out, text, strlen(text));
}

/* The values within an array or an object. */
static bool write_inner(const cli_json *json, const cli_json_node *node, cli_text *out) {
    bool object = node->kind == CLI_JSON_OBJECT, done = write_text(object ? "{" : "[", out);
    const cli_json_node *inner = cli_json_first(json, node);
    for (bool first = true; done && inner; inner = cli_json_next(json, inner), first = false) {
        done = first || write_text(", ", out);
        if (done && object)
            done =
                cli_text_append_json(out, inner->key, strlen(inner->key)) && write_text(": ", out);
        done = done && cli_json_write(json, inner, out);
    }
    return done && write_text(object ? "}" : "]", out);
}

bool cli_json_write(const cli_json *json, const cli_json_node *node, cli_text *out) {
    switch (node->kind) {
    case CLI_JSON_NULL:
        return write_text("null", out);
    case CLI_JSON_FALSE:
        return write_text("false", out);
    case CLI_JSON_TRUE:
        return write_text("true", out);
    case CLI_JSON_NUMBER:
        return write_text(node->text, out);
    case CLI_JSON_STRING:
        return cli_text_append_json(out, node->text, strlen(node->text));
    case CLI_JSON_ARRAY:
    case CLI_JSON_OBJECT:
        return write_inner(json, node, out); /* as deep as cli_json_parse reads */
    }
    return false;
}

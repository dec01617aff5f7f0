#include "batch_item.h"

#include "alias.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

static bool wrong(cli_batch_item *item, const char *why) {
    snprintf(item->why, sizeof item->why, "%s", why);
    return false;
}

static bool read_messages(cli_batch_item *item, const cli_json_node *array) {
    static const char needs[] = "\"messages\" is an array of {\"role\": ..., \"content\": ...}";
    const cli_json *json = &item->json;
    const cli_json_node *node;
    size_t count = 0;
    if (array->kind != CLI_JSON_ARRAY) return wrong(item, needs);
    if (item->messages) return wrong(item, "\"messages\" is there twice");
    for (node = cli_json_first(json, array); node; node = cli_json_next(json, node))
        count++;
    if (count == 0) return wrong(item, "\"messages\" is empty");
    item->messages = calloc(count, sizeof *item->messages);
    if (!item->messages) return wrong(item, "out of memory");
    for (node = cli_json_first(json, array); node; node = cli_json_next(json, node)) {
        const cli_json_node *role = cli_json_find(json, node, "role");
        const cli_json_node *content = cli_json_find(json, node, "content");
        if (!role || !content || role->kind != CLI_JSON_STRING || content->kind != CLI_JSON_STRING)
            return wrong(item, needs);
        item->messages[item->message_count++] =
            (mica_message){.role = role->text, .content = content->text};
    }
    return true;
}

/* The option of a table with the name of a key; NULL: there is none. */
static const cli_option *find_option(const cli_option *table, size_t count, const char *key) {
    char room[CLI_ALIAS_OPTION];
    const char *name = cli_alias_option(key, room);
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

/* The text of a value as on the command line; NULL: the value has no such text. */
static const char *option_text(const cli_json_node *value) {
    switch (value->kind) {
    case CLI_JSON_TRUE:
        return "on";
    case CLI_JSON_FALSE:
        return "off";
    case CLI_JSON_NUMBER:
    case CLI_JSON_STRING:
        return value->text;
    default:
        return NULL;
    }
}

/* Stores a member. base: the struct of the option's table. */
static bool read_option(cli_batch_item *item, const cli_option *option, const cli_json_node *value,
                        void *base) {
    const cli_json *json = &item->json;
    char why[160];
    bool many = option->kind == CLI_TEXTS || option->kind == CLI_BIASES;
    bool is_array = many && value->kind == CLI_JSON_ARRAY;
    void *member = (char *)base + option->offset;
    if (option->kind == CLI_TEXTS) ((cli_texts *)member)->count = 0; /* replaces earlier ones */
    if (option->kind == CLI_BIASES) ((cli_biases *)member)->count = 0;
    const cli_json_node *node = is_array ? cli_json_first(json, value) : value;
    for (; node; node = is_array ? cli_json_next(json, node) : NULL) {
        const char *text = option_text(node);
        if (!text) {
            snprintf(item->why, sizeof item->why, "\"%s\" has a value of another kind", value->key);
            return false;
        }
        if (!cli_option_store(option, text, base, why, sizeof why)) {
            snprintf(item->why, sizeof item->why, "\"%s\": %s", value->key, why);
            return false;
        }
    }
    return true;
}

/* What a line says of its constraint. */
typedef struct line_constraint {
    cli_constraint_values values;
    cli_text schema, choices; /* written as text */
} line_constraint;

/* Writes a value of JSON within the line as text, to which *member points then. */
static bool read_json(cli_batch_item *item, const cli_json_node *value, cli_text *text,
                      const char **member) {
    text->len = 0;
    if (!cli_json_write(&item->json, value, text)) return wrong(item, "out of memory");
    *member = text->data;
    return true;
}

/* A schema and choices may be JSON within the line, which the library checks. */
static bool read_constraint(cli_batch_item *item, const cli_option *option,
                            const cli_json_node *value, line_constraint *own) {
    cli_constraint_values *values = &own->values;
    bool text = value->kind == CLI_JSON_STRING;
    if (!text && option->offset == offsetof(cli_constraint_values, json_schema))
        return read_json(item, value, &own->schema, &values->json_schema);
    if (!text && option->kind == CLI_TEXTS)
        return read_json(item, value, &own->choices, &values->choices);
    return read_option(item, option, value, values);
}

static bool read_member(cli_batch_item *item, const cli_json_node *member, line_constraint *own) {
    if (strcmp(member->key, "id") == 0) return true;
    if (strcmp(member->key, "messages") == 0) return read_messages(item, member);
    if (strcmp(member->key, "prompt") == 0) {
        if (member->kind != CLI_JSON_STRING) return wrong(item, "\"prompt\" is a text");
        item->prompt = member->text;
        return true;
    }
    const cli_option *option = find_option(cli_answer_options, CLI_ANSWER_BATCH, member->key);
    if (option) return read_option(item, option, member, &item->values);
    option = find_option(cli_constraint_options, CLI_CONSTRAINT_FIELDS, member->key);
    if (option) return read_constraint(item, option, member, own);
    snprintf(item->why, sizeof item->why, "there is no option \"%.100s\"", member->key);
    return false;
}

/* {"type": "json_schema", "json_schema": {"schema": ...}}, or {"type": "text"}. */
static bool read_response_format(cli_batch_item *item, const cli_json_node *value,
                                 line_constraint *own) {
    const cli_json *json = &item->json;
    const cli_json_node *type = cli_json_find(json, value, "type");
    const cli_json_node *wrapped = cli_json_find(json, value, "json_schema");
    const cli_json_node *schema = wrapped ? cli_json_find(json, wrapped, "schema") : NULL;
    if (type && strcmp(type->text, "text") == 0) return true;
    if (schema) return read_json(item, schema, &own->schema, &own->values.json_schema);
    return wrong(item,
                 "\"response_format\" is not a \"json_schema\" with a \"schema\", or \"text\"");
}

/* A member of a request's body. What changes no answer is left alone. */
static bool read_body_member(cli_batch_item *item, const cli_json_node *member,
                             line_constraint *own) {
    static const char *const idle[] = {"user", "metadata", "store", "service_tier"};
    for (size_t i = 0; i < CLI_COUNT(idle); i++)
        if (strcmp(member->key, idle[i]) == 0) return true;
    if (strcmp(member->key, "id") == 0) return wrong(item, "there is no option \"id\"");
    if (strcmp(member->key, "model") == 0) {
        if (member->kind == CLI_JSON_STRING) item->model = member->text;
        return item->model || wrong(item, "\"model\" is a text");
    }
    if (strcmp(member->key, "n") == 0)
        return strcmp(member->text, "1") == 0 || wrong(item, "\"n\" is 1");
    if (strcmp(member->key, "stream") == 0)
        return member->kind == CLI_JSON_FALSE || wrong(item, "\"stream\" is false in a batch");
    if (strcmp(member->key, "response_format") == 0) return read_response_format(item, member, own);
    if (strcmp(member->key, "max_completion_tokens") == 0)
        return read_option(item, find_option(cli_answer_options, CLI_ANSWER_BATCH, "max_tokens"),
                           member, &item->values);
    return read_member(item, member, own);
}

/* {"custom_id", "method", "url", "body"}: of chat/completions and completions. */
static bool read_request(cli_batch_item *item, line_constraint *own) {
    const cli_json *json = &item->json;
    const cli_json_node *root = &json->nodes[0], *body = cli_json_find(json, root, "body");
    const cli_json_node *url = cli_json_find(json, root, "url");
    if (!body || body->kind != CLI_JSON_OBJECT) return wrong(item, "it has no \"body\"");
    if (url && strcmp(url->text, "/v1/chat/completions") != 0 &&
        strcmp(url->text, "/v1/completions") != 0)
        return wrong(item, "\"url\" is /v1/chat/completions or /v1/completions");
    const cli_json_node *member = cli_json_first(json, body);
    for (; member; member = cli_json_next(json, member))
        if (!read_body_member(item, member, own)) return false;
    return true;
}

static bool read_members(cli_batch_item *item, line_constraint *own) {
    const cli_json *json = &item->json;
    const cli_json_node *member = cli_json_first(json, &json->nodes[0]);
    if (item->openai && !read_request(item, own)) return false;
    for (; !item->openai && member; member = cli_json_next(json, member))
        if (!read_member(item, member, own)) return false;
    if (!item->prompt == !item->messages)
        return wrong(item, "it has either a \"prompt\" or \"messages\"");
    return cli_constraint_make(&own->values, &item->constraint, item->why, sizeof item->why);
}

static bool read_line(cli_batch_item *item, const char *line, size_t len) {
    cli_json *json = &item->json;
    line_constraint own = {0};
    const char *why;
    if (!cli_json_parse(json, line, len, &why)) return wrong(item, why);
    if (json->nodes[0].kind != CLI_JSON_OBJECT) return wrong(item, "it is not a JSON object");
    item->openai = cli_json_find(json, &json->nodes[0], "custom_id");
    bool read = read_members(item, &own);
    free(own.schema.data);
    free(own.choices.data);
    return read;
}

/* The line's own id; NULL: it has none, or one of a wrong type, which is an error of the line. */
static const cli_json *own_id(cli_batch_item *item) {
    const cli_json *json = &item->json;
    const char *key = item->openai ? "custom_id" : "id";
    const cli_json_node *id = json->count > 0 ? cli_json_find(json, &json->nodes[0], key) : NULL;
    if (id && (id->kind == CLI_JSON_NUMBER || id->kind == CLI_JSON_STRING)) return json;
    if (id) wrong(item, "an id is a text or a number");
    return NULL;
}

int cli_batch_item_next(cli_records *records, const cli_answer_values *values,
                        cli_batch_item *item) {
    size_t len;
    *item = (cli_batch_item){.values = *values};
    const char *line = cli_records_line(records, &len, &item->line);
    if (!line) return 0;
    read_line(item, line, len);
    item->id = cli_records_id(records, own_id(item), item->line);
    if (item->id) return 1;
    cli_batch_item_deinit(item);
    return -1;
}

void cli_batch_item_deinit(cli_batch_item *item) {
    free(item->id);
    free(item->messages);
    cli_constraint_deinit(&item->constraint);
    cli_json_deinit(&item->json);
    *item = (cli_batch_item){0};
}

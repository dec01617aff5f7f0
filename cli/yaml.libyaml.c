#include "yaml.h"

#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 32 };

/* Where in the document a value is. */
typedef struct level {
    bool map;
    size_t count; /* values so far; in a map keys count, too */
} level;

typedef struct writer {
    cli_text *json;
    level levels[MAX_DEPTH];
    int depth;
    char *why;
    size_t why_bytes;
} writer;

static bool fail(writer *w, const char *why, size_t line) {
    snprintf(w->why, w->why_bytes, "line %zu: %s", line + 1, why);
    return false;
}

/* What stands between a value and the one before it. */
static bool separate(writer *w) {
    level *l = &w->levels[w->depth];
    bool key = l->map && l->count % 2 == 0;
    const char *between = !l->count ? "" : key || !l->map ? ", " : ": ";
    l->count++;
    return cli_text_printf(w->json, "%s", between);
}

static bool is_number(const char *text) {
    size_t at = *text == '-', digits = strspn(text + at, "0123456789");
    if (!digits || (digits > 1 && text[at] == '0')) return false;
    at += digits;
    if (text[at] == '.') {
        digits = strspn(text + at + 1, "0123456789");
        if (!digits) return false;
        at += 1 + digits;
    }
    if (text[at] == 'e' || text[at] == 'E') {
        at++;
        at += text[at] == '-' || text[at] == '+';
        digits = strspn(text + at, "0123456789");
        if (!digits) return false;
        at += digits;
    }
    return !text[at];
}

/* A plain word that is no text, as JSON; NULL: it is a text. */
static const char *plain_value(const char *text) {
    static const char *const words[][2] = {
        {"", "null"},       {"~", "null"},      {"null", "null"},  {"Null", "null"},
        {"NULL", "null"},   {"true", "true"},   {"True", "true"},  {"TRUE", "true"},
        {"false", "false"}, {"False", "false"}, {"FALSE", "false"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i][0]) == 0) return words[i][1];
    return is_number(text) ? text : NULL;
}

static bool put_scalar(writer *w, const yaml_event_t *e) {
    const char *text = (const char *)e->data.scalar.value;
    bool key = w->levels[w->depth].map && w->levels[w->depth].count % 2 == 0;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !key;
    const char *value = plain ? plain_value(text) : NULL;
    if (!separate(w)) return false;
    if (value) return cli_text_printf(w->json, "%s", value);
    return cli_text_append_json(w->json, text, e->data.scalar.length);
}

static bool open_level(writer *w, bool map, size_t line) {
    if (!separate(w)) return false;
    if (w->depth + 1 == MAX_DEPTH) return fail(w, "it is nested too deep", line);
    w->levels[++w->depth] = (level){.map = map};
    return cli_text_printf(w->json, map ? "{" : "[");
}

static bool close_level(writer *w) {
    bool map = w->levels[w->depth--].map;
    return cli_text_printf(w->json, map ? "}" : "]");
}

static bool put_event(writer *w, const yaml_event_t *e) {
    size_t line = e->start_mark.line;
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return put_scalar(w, e);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(w, false, line);
    case YAML_MAPPING_START_EVENT:
        return open_level(w, true, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_level(w);
    case YAML_ALIAS_EVENT:
        return fail(w, "aliases (*name) are not supported", line);
    case YAML_DOCUMENT_START_EVENT:
        return w->levels[0].count == 0 || fail(w, "there is a second document", line);
    default:
        return true;
    }
}

bool cli_yaml_to_json(const char *text, size_t len, cli_text *json, char *why, size_t why_bytes) {
    writer w = {.json = json, .why = why, .why_bytes = why_bytes};
    yaml_parser_t parser;
    bool done = true, ended = false;
    snprintf(why, why_bytes, "memory is out");
    if (!yaml_parser_initialize(&parser)) return false;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    while (done && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            done = fail(&w, parser.problem ? parser.problem : "bad YAML", parser.problem_mark.line);
            break;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        done = put_event(&w, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (done && json->len == 0) done = cli_text_printf(json, "null");
    return done;
}

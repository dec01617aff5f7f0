#include "json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_BYTES = 64000000 }; /* the limit of a prompt, too */

static const char out_of_memory[] = "out of memory";

typedef struct reader {
    cli_json *json;
    const char *at, *end;
    char *to; /* end of the decoded strings; decoding never lengthens one, so there is room */
    const char *why;
} reader;

static bool fail(reader *r, const char *why) {
    r->why = why;
    return false;
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take_char(reader *r, char c) {
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* Appends a node.  returns its index, SIZE_MAX if memory is out */
static size_t add(reader *r, cli_json_kind kind, const char *key) {
    cli_json *json = r->json;
    if (json->count == json->room) {
        size_t room = json->room * 2 + 16;
        cli_json_node *grown = realloc(json->nodes, room * sizeof *grown);
        if (!grown) {
            r->why = out_of_memory;
            return SIZE_MAX;
        }
        json->nodes = grown;
        json->room = room;
    }
    json->nodes[json->count] = (cli_json_node){.kind = kind, .key = key, .text = ""};
    return json->count++;
}

/* ---- strings ---- */

static bool hex4(reader *r, uint32_t *out) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (r->at == r->end) return fail(r, "a string does not end");
        char c = *r->at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) return fail(r, "\\u needs four hexadecimal digits");
        value = value * 16 + digit;
    }
    *out = value;
    return true;
}

static void put_utf8(reader *r, uint32_t c) {
    if (c < 0x80) {
        *r->to++ = (char)c;
        return;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    *r->to++ = (char)(lead[more] | (c >> (6 * more)));
    while (more-- > 0)
        *r->to++ = (char)(0x80 | ((c >> (6 * more)) & 0x3f));
}

/* Reads the digits after "\u". A surrogate without its other half becomes U+FFFD. */
static bool read_unicode(reader *r) {
    uint32_t c, low;
    if (!hex4(r, &c)) return false;
    if (c == 0) return fail(r, "a string holds a NUL");
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == 'u') {
        const char *before = r->at;
        r->at += 2;
        if (!hex4(r, &low)) return false;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        else
            r->at = before;
    }
    put_utf8(r, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return true;
}

static bool read_escape(reader *r) {
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return fail(r, "a string does not end");
    char c = *r->at++;
    if (c == 'u') return read_unicode(r);
    const char *name = c ? strchr(names, c) : NULL;
    if (!name) return fail(r, "an escape in a string is unknown");
    *r->to++ = bytes[name - names];
    return true;
}

static bool read_string(reader *r, const char **out) {
    *out = r->to;
    if (!take_char(r, '"')) return fail(r, "a string is missing");
    while (r->at < r->end && *r->at != '"') {
        char c = *r->at++;
        if ((unsigned char)c < 0x20) return fail(r, "a string holds a control character");
        if (c != '\\')
            *r->to++ = c;
        else if (!read_escape(r))
            return false;
    }
    if (!take_char(r, '"')) return fail(r, "a string does not end");
    *r->to++ = '\0';
    return true;
}

/* ---- values ---- */

static size_t digits(reader *r) {
    const char *start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - start);
}

static bool read_number(reader *r, const char **out) {
    const char *start = r->at;
    take_char(r, '-');
    const char *whole = r->at;
    size_t n = digits(r);
    bool valid = n == 1 || (n > 1 && *whole != '0');
    if (valid && take_char(r, '.')) valid = digits(r) > 0;
    if (valid && (take_char(r, 'e') || take_char(r, 'E'))) {
        if (!take_char(r, '-')) take_char(r, '+');
        valid = digits(r) > 0;
    }
    if (!valid) return fail(r, "a value is missing or malformed");
    size_t len = (size_t)(r->at - start);
    *out = r->to;
    memcpy(r->to, start, len);
    r->to += len;
    *r->to++ = '\0';
    return true;
}

static bool read_word(reader *r, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) return false;
    r->at += len;
    return true;
}

static bool read_value(reader *r, const char *key, int depth, size_t *index);

/* Reads the values after "[" or "{". */
static bool read_members(reader *r, size_t parent, char close, int depth) {
    size_t last = 0;
    skip_blanks(r);
    if (take_char(r, close)) return true;
    for (;;) {
        const char *key = NULL;
        size_t index;
        skip_blanks(r);
        if (close == '}') {
            if (!read_string(r, &key)) return false;
            skip_blanks(r);
            if (!take_char(r, ':')) return fail(r, "a ':' is missing");
        }
        if (!read_value(r, key, depth + 1, &index)) return false;
        if (last)
            r->json->nodes[last].next = index;
        else
            r->json->nodes[parent].first = index;
        last = index;
        skip_blanks(r);
        if (take_char(r, close)) return true;
        if (!take_char(r, ',')) return fail(r, "a ',' or a closing bracket is missing");
    }
}

static bool read_value(reader *r, const char *key, int depth, size_t *index) {
    cli_json_kind kind = CLI_JSON_NUMBER;
    const char *text = "";
    if (depth > MAX_DEPTH) return fail(r, "it is nested too deeply");
    skip_blanks(r);
    char c = r->at < r->end ? *r->at : '\0';
    if (c == '"') {
        kind = CLI_JSON_STRING;
        if (!read_string(r, &text)) return false;
    } else if (take_char(r, '[')) {
        kind = CLI_JSON_ARRAY;
    } else if (take_char(r, '{')) {
        kind = CLI_JSON_OBJECT;
    } else if (read_word(r, "null")) {
        kind = CLI_JSON_NULL;
    } else if (read_word(r, "true")) {
        kind = CLI_JSON_TRUE;
    } else if (read_word(r, "false")) {
        kind = CLI_JSON_FALSE;
    } else if (!read_number(r, &text)) {
        return false;
    }
    *index = add(r, kind, key);
    if (*index == SIZE_MAX) return false;
    r->json->nodes[*index].text = text;
    if (kind == CLI_JSON_ARRAY) return read_members(r, *index, ']', depth);
    return kind != CLI_JSON_OBJECT || read_members(r, *index, '}', depth);
}

bool cli_json_parse(cli_json *json, const char *text, size_t len, const char **why) {
    size_t root;
    cli_json_deinit(json);
    if (len > MAX_BYTES) {
        *why = "it is longer than 64 MB";
        return false;
    }
    /* A decoded string with its NUL is no longer than the quoted one. A number needs one byte more,
     * for its NUL. A text of len bytes has at most len / 2 + 1 numbers. */
    json->strings = malloc(len + len / 2 + 2);
    reader r = {json, text, text + len, json->strings, NULL};
    bool read = json->strings ? read_value(&r, NULL, 0, &root) : fail(&r, out_of_memory);
    if (read) {
        skip_blanks(&r);
        if (r.at < r.end) read = fail(&r, "something follows it");
    }
    if (!read) {
        *why = r.why;
        cli_json_deinit(json);
        json->fault = (size_t)(r.at - text);
    }
    return read;
}

const cli_json_node *cli_json_first(const cli_json *json, const cli_json_node *node) {
    return node->first ? &json->nodes[node->first] : NULL;
}

const cli_json_node *cli_json_next(const cli_json *json, const cli_json_node *node) {
    return node->next ? &json->nodes[node->next] : NULL;
}

const cli_json_node *cli_json_find(const cli_json *json, const cli_json_node *object,
                                   const char *key) {
    if (object->kind != CLI_JSON_OBJECT) return NULL;
    const cli_json_node *member = cli_json_first(json, object);
    while (member && strcmp(member->key, key) != 0)
        member = cli_json_next(json, member);
    return member;
}

void cli_json_deinit(cli_json *json) {
    free(json->nodes);
    free(json->strings);
    *json = (cli_json){0};
}

#include "base/json_write.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool put_unit(mc_buffer *out, uint32_t unit) {
    return mc_buffer_printf(out, "\\u%04x", (unsigned)unit);
}

static bool put_character(mc_buffer *out, uint32_t c) {
    if (c == '"' || c == '\\')
        return mc_buffer_add_byte(out, '\\') && mc_buffer_add_byte(out, (char)c);
    if (c >= 0x20 && c < 0x7f) return mc_buffer_add_byte(out, (char)c);
    if (c < 0x10000) return put_unit(out, c);
    c -= 0x10000;
    return put_unit(out, 0xd800 + (c >> 10)) && put_unit(out, 0xdc00 + (c & 0x3ff));
}

bool mc_json_put_str(mc_buffer *out, mc_str view) {
    const char *text = view.ptr;
    size_t left = view.len;
    bool done = mc_buffer_add_byte(out, '"');
    while (done && left > 0) {
        uint32_t c;
        size_t n = mc_utf8_decode(text, left, &c);
        done = n ? put_character(out, c) : put_unit(out, 0xdc00 + (uint8_t)*text);
        n = n ? n : 1;
        text += n;
        left -= n;
    }
    return done && mc_buffer_add_byte(out, '"');
}

bool mc_json_put_text(mc_buffer *out, const char *text) {
    return mc_json_put_str(out, mc_str_of(text));
}

void mc_json_escape_char(uint32_t c, char text[7]) {
    static const char digits[] = "0123456789abcdef", short_ones[] = "\"\\\b\f\n\r\t",
                      names[] = "\"\\bfnrt";
    const char *found = c ? strchr(short_ones, (int)c) : NULL;
    text[0] = '\\';
    text[2] = '\0';
    if (found) {
        text[1] = names[found - short_ones];
        return;
    }
    memcpy(text + 1, "u00", 3);
    text[4] = digits[c >> 4 & 15];
    text[5] = digits[c & 15];
    text[6] = '\0';
}

bool mc_json_is_escaped(uint32_t c) {
    return c < 0x20 || c == '"' || c == '\\';
}

bool mc_json_escape(mc_buffer *out, mc_str text) {
    bool done = true;
    for (size_t i = 0; done && i < text.len; i++) {
        char escape[7];
        if (!mc_json_is_escaped((uint8_t)text.ptr[i])) {
            done = mc_buffer_add_byte(out, text.ptr[i]);
            continue;
        }
        mc_json_escape_char((uint8_t)text.ptr[i], escape);
        done = mc_buffer_add_text(out, escape);
    }
    return done;
}

/* Adds what printf wrote, with a point for the locale's. */
static bool put_digits(mc_buffer *out, const char *text) {
    bool done = true;
    for (size_t i = 0; done && text[i]; i++) { /* the locale's decimal point may be several bytes */
        bool plain = strchr("0123456789+-e", text[i]) != NULL;
        if (plain || strchr("0123456789", text[i - 1]))
            done = mc_buffer_add_byte(out, plain ? text[i] : '.');
    }
    return done;
}

bool mc_json_put_number(mc_buffer *out, double value) {
    if (!isfinite(value)) return mc_buffer_add_text(out, "null");
    char text[64];
    snprintf(text, sizeof text, "%.17g", value);
    return put_digits(out, text);
}

/* A float with the fewest digits that give the same double. */
static bool put_float(mc_buffer *out, double value) {
    char text[64];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    bool whole = strspn(text, "-0123456789") == strlen(text);
    return put_digits(out, text) && (!whole || mc_buffer_add_text(out, ".0"));
}

bool mc_json_put_line(mc_buffer *out, int depth) {
    bool done = mc_buffer_add_byte(out, '\n');
    for (int i = 0; done && i < depth; i++)
        done = mc_buffer_add_text(out, "    ");
    return done;
}

static bool put_children(mc_buffer *out, mc_json value, int depth) {
    bool object = mc_json_get_type(value) == MC_JSON_OBJECT, first = true;
    bool lines = depth != MC_JSON_ONE_LINE;
    int within = lines ? depth + 1 : MC_JSON_ONE_LINE;
    bool done = mc_buffer_add_byte(out, object ? '{' : '[');
    for (mc_json_iter it = mc_json_begin(value); done && mc_json_next(&it); first = false) {
        done = first || mc_buffer_add_text(out, lines ? "," : ", ");
        if (lines) done = done && mc_json_put_line(out, within);
        if (done && object) done = mc_json_put_str(out, it.key) && mc_buffer_add_text(out, ": ");
        done = done && mc_json_put_value(out, it.value, within);
    }
    if (done && !first && lines) done = mc_json_put_line(out, depth);
    return done && mc_buffer_add_byte(out, object ? '}' : ']');
}

bool mc_json_put_value(mc_buffer *out, mc_json value, int depth) {
    bool flag = false;
    int64_t integer = 0;
    uint64_t large = 0;
    double number = 0;
    mc_str text = MC_STR("");
    switch (mc_json_get_type(value)) {
    case MC_JSON_BOOL:
        mc_json_get_bool(value, &flag);
        return mc_buffer_add_text(out, flag ? "true" : "false");
    case MC_JSON_INT:
        mc_json_get_int(value, &integer);
        return mc_buffer_printf(out, "%" PRId64, integer);
    case MC_JSON_FLOAT:
        if (mc_json_get_uint(value, &large)) return mc_buffer_printf(out, "%" PRIu64, large);
        mc_json_get_float(value, &number);
        return put_float(out, number);
    case MC_JSON_STRING:
        mc_json_get_str(value, &text);
        return mc_json_put_str(out, text);
    case MC_JSON_ARRAY:
    case MC_JSON_OBJECT:
        return put_children(out, value, depth);
    case MC_JSON_NONE:
    case MC_JSON_NULL:
        break;
    }
    return mc_buffer_add_text(out, "null");
}

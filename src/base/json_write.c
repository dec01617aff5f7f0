#include "base/json_write.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
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

bool mc_json_put_text(mc_buffer *out, const char *text) {
    size_t left = strlen(text);
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

bool mc_json_put_number(mc_buffer *out, double value) {
    if (!isfinite(value)) return mc_buffer_add_text(out, "null");
    char text[64];
    int n = snprintf(text, sizeof text, "%.17g", value);
    bool done = n > 0;
    for (int i = 0; done && i < n; i++) { /* the locale's decimal point may be several bytes */
        bool plain = strchr("0123456789+-e", text[i]) != NULL;
        if (plain || strchr("0123456789", text[i - 1]))
            done = mc_buffer_add_byte(out, plain ? text[i] : '.');
    }
    return done;
}

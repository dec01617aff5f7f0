#include "serve/common/put.h"

#include "base/utf8.h"

#include <inttypes.h>

/* What stands before a value. */
static void begin(mc_put *put, const char *key) {
    if (put->failed) return;
    bool done = !put->comma || mc_buffer_add_byte(put->out, ',');
    if (done && key) done = mc_json_put_text(put->out, key) && mc_buffer_add_byte(put->out, ':');
    put->failed = !done;
    put->comma = true;
}

void mc_put_open(mc_put *put, const char *key, char bracket) {
    begin(put, key);
    if (!put->failed) put->failed = !mc_buffer_add_byte(put->out, bracket);
    put->comma = false;
}

void mc_put_close(mc_put *put, char bracket) {
    if (!put->failed) put->failed = !mc_buffer_add_byte(put->out, bracket);
    put->comma = true;
}

void mc_put_list(mc_put *put, const char *key, const mc_buffer *elements) {
    mc_put_open(put, key, '[');
    if (elements->len && !put->failed)
        put->failed = !mc_buffer_add(put->out, elements->data, elements->len);
    mc_put_close(put, ']');
}

void mc_put_text(mc_put *put, const char *key, const char *text) {
    if (text)
        mc_put_str(put, key, mc_str_of(text));
    else
        mc_put_null(put, key);
}

/* Text whose bytes are not UTF-8, with U+FFFD for these. */
static bool put_mended(mc_buffer *out, mc_str text) {
    mc_buffer mended = {0};
    bool done = true;
    for (size_t i = 0; done && i < text.len;) {
        size_t bad = mc_utf8_bad_len(text.ptr + i, text.len - i);
        uint32_t c;
        size_t n = bad ? bad : mc_utf8_decode(text.ptr + i, text.len - i, &c);
        done = bad ? mc_buffer_add(&mended, "\xef\xbf\xbd", 3)
                   : mc_buffer_add(&mended, text.ptr + i, n);
        i += n;
    }
    done = done && mc_json_put_str(out, (mc_str){mended.data, mended.len});
    mc_buffer_deinit(&mended);
    return done;
}

void mc_put_str(mc_put *put, const char *key, mc_str text) {
    begin(put, key);
    if (put->failed) return;
    put->failed = mc_utf8_valid(text.ptr, text.len) ? !mc_json_put_str(put->out, text)
                                                    : !put_mended(put->out, text);
}

void mc_put_int(mc_put *put, const char *key, int64_t value) {
    begin(put, key);
    if (!put->failed) put->failed = !mc_buffer_printf(put->out, "%" PRId64, value);
}

void mc_put_real(mc_put *put, const char *key, double value) {
    begin(put, key);
    if (!put->failed) put->failed = !mc_json_put_number(put->out, value);
}

void mc_put_bool(mc_put *put, const char *key, bool value) {
    mc_put_json(put, key, value ? "true" : "false");
}

void mc_put_null(mc_put *put, const char *key) {
    mc_put_json(put, key, "null");
}

void mc_put_json(mc_put *put, const char *key, const char *json) {
    begin(put, key);
    if (!put->failed) put->failed = !mc_buffer_add_text(put->out, json);
}

void mc_put_raw(mc_put *put, const char *key, mc_str json) {
    begin(put, key);
    for (size_t i = 0; !put->failed && i < json.len;
         i++) { /* texts hold no line ends as they are */
        bool line = json.ptr[i] == '\n' || json.ptr[i] == '\r';
        put->failed = !mc_buffer_add_byte(put->out, line ? ' ' : json.ptr[i]);
    }
}

void mc_put_members(mc_put *put, const mc_buffer *json) {
    if (!json->len) return;
    begin(put, NULL);
    if (!put->failed) put->failed = !mc_buffer_add(put->out, json->data, json->len);
}

void mc_put_member(mc_put *put, mc_str key, mc_json value) {
    mc_put_str(put, NULL, key); /* it may hold NULs */
    if (!put->failed) put->failed = !mc_buffer_add_byte(put->out, ':');
    put->comma = false;
    mc_put_value(put, NULL, value);
}

void mc_put_value(mc_put *put, const char *key, mc_json value) {
    mc_json_type type = mc_json_get_type(value);
    if (type != MC_JSON_OBJECT && type != MC_JSON_ARRAY) {
        begin(put, key);
        if (!put->failed) put->failed = !mc_json_put_value(put->out, value, 0);
        return;
    }
    bool object = type == MC_JSON_OBJECT;
    mc_put_open(put, key, object ? '{' : '[');
    for (mc_json_iter it = mc_json_begin(value); !put->failed && mc_json_next(&it);) {
        if (object)
            mc_put_member(put, it.key, it.value);
        else
            mc_put_value(put, NULL, it.value);
    }
    mc_put_close(put, object ? '}' : ']');
}

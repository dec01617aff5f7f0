/* Input: a byte for the format of calls, a byte for the lengths of pieces, and an answer. The parts
 * of an answer do not depend on the pieces that it comes in; none is empty; the arguments of calls
 * are JSON objects. */
#include "base/alloc.h"
#include "base/json.h"
#include "grammar/splitter.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"get_weather\"}}]";

static void must(bool truth) {
    if (!truth) abort();
}

typedef struct parts { /* the kind of each byte that is handed out, and the bytes */
    mc_buffer kinds, text;
} parts;

static mica_status take(void *user, const mc_piece *piece) {
    parts *p = user;
    mc_json_doc *doc = NULL;
    must(piece->text.len > 0);
    if (piece->kind == MC_PIECE_CALL) {
        mica_status status = mc_json_parse(piece->text.ptr, piece->text.len, "fuzz", &doc);
        must(status == MICA_OK || status == MICA_ENOMEM);
        must(!doc || mc_json_get_type(mc_json_root(doc)) == MC_JSON_OBJECT);
        mc_json_close(&doc);
        must(piece->name.len > 0);
        if (!mc_buffer_add(&p->text, piece->name.ptr, piece->name.len)) return MICA_ENOMEM;
    }
    if (!mc_buffer_add(&p->text, piece->text.ptr, piece->text.len)) return MICA_ENOMEM;
    for (size_t n = p->text.len - p->kinds.len; n > 0; n--)
        if (!mc_buffer_add_byte(&p->kinds, (char)piece->kind)) return MICA_ENOMEM;
    return MICA_OK;
}

static bool split(const mc_answer_format *format, const mc_tools *tools, bool is_open, mc_str text,
                  size_t step, parts *p) {
    mc_splitter *s;
    bool good = mc_splitter_open(format, tools, is_open, take, p, &s) == MICA_OK;
    for (size_t at = 0; good && at < text.len; at += step)
        good = mc_splitter_push(s, text.ptr + at, step < text.len - at ? step : text.len - at) ==
               MICA_OK;
    good = good && mc_splitter_end(s) == MICA_OK;
    mc_splitter_close(&s);
    return good;
}

static void run(const mc_answer_format *format, bool is_open, size_t step, mc_str text) {
    mc_tools tools;
    parts whole = {0}, pieces = {0};
    if (mc_tools_read(tools_text, sizeof tools_text - 1, &tools) == MICA_OK &&
        split(format, &tools, is_open, text, text.len + 1, &whole) &&
        split(format, &tools, is_open, text, step, &pieces)) {
        must(whole.text.len == pieces.text.len && whole.kinds.len == pieces.kinds.len);
        if (whole.text.len) {
            must(memcmp(whole.text.data, pieces.text.data, whole.text.len) == 0);
            must(memcmp(whole.kinds.data, pieces.kinds.data, whole.kinds.len) == 0);
        }
    }
    mc_buffer_deinit(&whole.text);
    mc_buffer_deinit(&whole.kinds);
    mc_buffer_deinit(&pieces.text);
    mc_buffer_deinit(&pieces.kinds);
    mc_tools_deinit(&tools);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"hermes", "llama", "pythonic", "gemma", "generic"};
    if (size < 2) return 0;
    bool thinks = data[0] & 128, is_open = data[0] & 64;
    const mc_answer_format format = {.calls = mc_call_format_find(names[(data[0] & 63) % 5]),
                                     .think_begin = thinks ? "<think>" : NULL,
                                     .think_end = thinks ? "</think>" : NULL};
    mc_str text = {(const char *)data + 2, size - 2};
    run(&format, is_open, 1 + data[1] % 32, text);
    mc_alloc_fail_at(1 + data[1] % 64);
    run(&format, is_open, 1 + data[1] % 32, text);
    mc_alloc_fail_at(0);
    return 0;
}

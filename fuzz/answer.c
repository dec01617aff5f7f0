/* Input: a byte for the format of calls, a byte for the lengths of pieces, and an answer. The parts
 * of an answer do not depend on the pieces that it comes in, also if calls are streamed; none is
 * empty; the arguments of calls are JSON objects. Calls that come out whole come out alike if they
 * are streamed. */
#include "answer/splitter.h"
#include "base/alloc.h"
#include "base/json.h"

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
    mc_buffer calls; /* names and arguments, each behind a NUL */
    size_t begun;    /* where the arguments of the call that is streamed are in `calls`; 0: none */
    bool broken;     /* a call */
} parts;

static bool add(parts *p, mc_str text, mc_piece_kind kind) {
    if (!mc_buffer_add(&p->text, text.ptr, text.len)) return false;
    for (size_t n = text.len; n > 0; n--)
        if (!mc_buffer_add_byte(&p->kinds, (char)kind)) return false;
    return true;
}

static bool add_call(parts *p, mc_str text) {
    return mc_buffer_add_byte(&p->calls, '\0') && mc_buffer_add(&p->calls, text.ptr, text.len);
}

static void check_object(mc_str text) {
    mc_json_doc *doc = NULL;
    mica_status status = mc_json_parse(text.ptr, text.len, "fuzz", &doc);
    must(status == MICA_OK || status == MICA_ENOMEM);
    must(!doc || mc_json_get_type(mc_json_root(doc)) == MC_JSON_OBJECT);
    mc_json_close(&doc);
}

/* Parts of a streamed call come one behind the other, and nothing among them. */
static bool take_streamed(parts *p, const mc_piece *piece) {
    if (piece->kind == MC_PIECE_CALL_BEGIN) {
        must(!p->begun && piece->name.len > 0 && !piece->text.len);
        if (!add_call(p, piece->name) || !add_call(p, MC_STR(""))) return false;
        p->begun = p->calls.len;
        return add(p, piece->name, piece->kind);
    }
    must(p->begun > 0);
    if (piece->kind == MC_PIECE_CALL_TEXT) {
        must(piece->text.len > 0);
        return mc_buffer_add(&p->calls, piece->text.ptr, piece->text.len) &&
               add(p, piece->text, piece->kind);
    }
    if (!piece->broken) check_object((mc_str){p->calls.data + p->begun, p->calls.len - p->begun});
    p->broken = p->broken || piece->broken;
    p->begun = 0;
    return add(p, piece->broken ? MC_STR("!") : MC_STR("."), piece->kind);
}

static mica_status take(void *user, const mc_piece *piece) {
    parts *p = user;
    if (piece->kind > MC_PIECE_CALL) return take_streamed(p, piece) ? MICA_OK : MICA_ENOMEM;
    must(piece->text.len > 0 && !p->begun);
    bool done = true;
    if (piece->kind == MC_PIECE_CALL) {
        check_object(piece->text);
        must(piece->name.len > 0);
        done = add_call(p, piece->name) && add_call(p, piece->text) &&
               add(p, piece->name, piece->kind);
    }
    return done && add(p, piece->text, piece->kind) ? MICA_OK : MICA_ENOMEM;
}

static void parts_deinit(parts *p) {
    mc_buffer_deinit(&p->text);
    mc_buffer_deinit(&p->kinds);
    mc_buffer_deinit(&p->calls);
}

/* How an answer is split. */
typedef struct way {
    const mc_answer_format *format;
    const mc_tools *tools;
    bool is_open, streams;
    mc_str text;
} way;

static bool split(const way *w, size_t step, parts *p) {
    mc_splitter *s;
    bool good = mc_splitter_open(w->format, w->tools, w->is_open, take, p, &s) == MICA_OK;
    if (good && w->streams) mc_splitter_stream_calls(s);
    for (size_t at = 0; good && at < w->text.len; at += step)
        good = mc_splitter_push(s, w->text.ptr + at,
                                step < w->text.len - at ? step : w->text.len - at) == MICA_OK;
    good = good && mc_splitter_end(s) == MICA_OK;
    must(!good || !p->begun);
    mc_splitter_close(&s);
    return good;
}

static void same(const mc_buffer *a, const mc_buffer *b) {
    must(a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0));
}

/* Splits an answer at once and in pieces. *all: what comes out. false: no memory. */
static bool compare(const way *w, size_t step, parts *all) {
    parts pieces = {.broken = false};
    bool done = split(w, w->text.len + 1, all) && split(w, step, &pieces);
    if (done) {
        same(&all->text, &pieces.text);
        same(&all->kinds, &pieces.kinds);
        same(&all->calls, &pieces.calls);
    }
    parts_deinit(&pieces);
    return done;
}

static void run(const mc_answer_format *format, bool is_open, size_t step, mc_str text) {
    mc_tools tools;
    parts whole = {.broken = false}, streamed = {.broken = false};
    if (mc_tools_read(tools_text, sizeof tools_text - 1, &tools) == MICA_OK) {
        const way first = {format, &tools, is_open, false, text},
                  second = {format, &tools, is_open, true, text};
        /* Where something is malformed, more of it may be a call if it is streamed. */
        if (compare(&first, step, &whole) && compare(&second, step, &streamed) &&
            !streamed.broken && whole.calls.len >= streamed.calls.len)
            same(&whole.calls, &streamed.calls);
    }
    parts_deinit(&whole);
    parts_deinit(&streamed);
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

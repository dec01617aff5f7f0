/* Input: a byte for the format of calls, whether its marks are tokens, and thoughts; a byte for the
 * lengths of pieces; and an answer. The parts
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
    bool is_open, streams, tokens;
    mc_str text;
} way;

/* The number of the longest of the format's marks that a text begins with; MC_MARKS: none. */
static size_t mark_of(const way *w, mc_str text) {
    size_t found = MC_MARKS, longest = 0;
    const char *mark;
    for (size_t i = 0; w->tokens && (mark = mc_answer_mark(i)) != NULL; i++)
        if (mc_str_starts(text, mc_str_of(mark)) && strlen(mark) > longest) {
            found = i;
            longest = strlen(mark);
        }
    return found;
}

/* Pushes the text in pieces, which marks end where they are tokens. */
static bool push(const way *w, mc_splitter *s, size_t step) {
    const mc_str all = w->text;
    bool good = true;
    for (size_t at = 0, to; good && at < all.len;) {
        size_t mark = MC_MARKS;
        for (to = at; to < all.len && to - at < step && mark == MC_MARKS;)
            if ((mark = mark_of(w, (mc_str){all.ptr + to, all.len - to})) == MC_MARKS) to++;
        good = mc_splitter_push(s, all.ptr + at, to - at) == MICA_OK;
        at = to;
        if (!good || mark == MC_MARKS) continue;
        good = mc_splitter_push_token(s, w->format->ids[mark], "", 0) == MICA_OK;
        at += strlen(mc_answer_mark(mark));
    }
    return good;
}

static bool split(const way *w, size_t step, parts *p) {
    mc_splitter *s;
    bool good = mc_splitter_open(w->format, w->tools, w->is_open, take, p, &s) == MICA_OK;
    if (good && w->streams) mc_splitter_stream_calls(s);
    good = good && push(w, s, step);
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

static void run(const mc_answer_format *format, bool is_open, bool tokens, size_t step,
                mc_str text) {
    mc_tools tools;
    parts whole = {.broken = false}, streamed = {.broken = false};
    if (mc_tools_read(tools_text, sizeof tools_text - 1, &tools) == MICA_OK) {
        const way first = {format, &tools, is_open, false, tokens, text},
                  second = {format, &tools, is_open, true, tokens, text};
        /* Where something is malformed, more of it may be a call if it is streamed. */
        if (compare(&first, step, &whole) && compare(&second, step, &streamed) &&
            !streamed.broken && whole.calls.len >= streamed.calls.len)
            same(&whole.calls, &streamed.calls);
    }
    parts_deinit(&whole);
    parts_deinit(&streamed);
    mc_tools_deinit(&tools);
}

/* A format whose marks are tokens of any ids. */
static void make_tokens(mc_answer_format *format) {
    for (size_t i = 0; mc_answer_mark(i); i++) {
        format->tokens |= UINT64_C(1) << i;
        format->ids[i] = (int32_t)i;
    }
    format->special = format->tokens;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t count = 0;
    if (size < 2) return 0;
    while (mc_call_format_at(count))
        count++;
    bool thinks = data[0] & 128, is_open = data[0] & 64, tokens = data[0] & 32;
    mc_answer_format format = {.calls = mc_call_format_at((data[0] & 31) % count)};
    if (thinks || format.calls->channels) {
        format.think_begin = format.calls->channels ? "<|channel|>analysis<|message|>" : "<think>";
        format.think_end = format.calls->channels ? "<|end|>" : "</think>";
    }
    if (tokens) make_tokens(&format);
    mc_str text = {(const char *)data + 2, size - 2};
    run(&format, is_open, tokens, 1 + data[1] % 32, text);
    mc_alloc_fail_at(1 + data[1] % 64);
    run(&format, is_open, tokens, 1 + data[1] % 32, text);
    mc_alloc_fail_at(0);
    return 0;
}

#include "parts.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, "
    "\"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": \"object\"}, \"u\": {\"type\": [\"string\", "
    "\"null\"]}, \"l\": {\"anyOf\": [{\"type\": \"array\"}, {\"type\": \"number\"}]}}}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"get_weather\"}}, {\"type\": \"function\","
    " \"function\": {\"name\": \"add\"}}]";
mc_tools answer_tools;

int answer_tools_open(void **state) {
    (void)state;
    return mc_tools_read(tools_text, strlen(tools_text), &answer_tools) != MICA_OK;
}

int answer_tools_close(void **state) {
    (void)state;
    mc_tools_deinit(&answer_tools);
    return 0;
}

/* ---- parts ---- */

/* A part of a call that is streamed. */
static void take_streamed(parts *p, const mc_piece *piece) {
    bool within = p->kind == MC_PIECE_CALL_BEGIN || p->kind == MC_PIECE_CALL_TEXT;
    if (piece->kind == MC_PIECE_CALL_BEGIN) {
        assert_false(within);
        p->call = p->text.len;
        if (p->text.len) mc_buffer_add_byte(&p->text, '|');
        mc_buffer_printf(&p->text, "%.*s:", MC_STR_ARG(piece->name));
    } else {
        assert_true(within);
        mc_buffer_add(&p->text, piece->text.ptr, piece->text.len);
        if (piece->broken) mc_buffer_add_byte(&p->text, '!');
        if (piece->broken && p->sound > p->call) p->sound = p->call;
    }
}

static void take_whole(parts *p, const mc_piece *piece) {
    bool call = piece->kind == MC_PIECE_CALL;
    assert_true(p->kind != MC_PIECE_CALL_BEGIN && p->kind != MC_PIECE_CALL_TEXT);
    if (call || p->kind != (int)piece->kind) {
        if (p->text.len) mc_buffer_add_byte(&p->text, '|');
        if (call)
            mc_buffer_printf(&p->text, "%.*s:", MC_STR_ARG(piece->name));
        else
            mc_buffer_add_text(&p->text, piece->kind == MC_PIECE_TEXT ? "text:" : "thought:");
    }
    mc_buffer_add(&p->text, piece->text.ptr, piece->text.len);
}

mica_status parts_take(void *user, const mc_piece *piece) {
    parts *p = user;
    bool bare = piece->kind == MC_PIECE_CALL_BEGIN || piece->kind == MC_PIECE_CALL_END;
    assert_true(bare == !piece->text.len);
    if (piece->kind > MC_PIECE_CALL)
        take_streamed(p, piece);
    else
        take_whole(p, piece);
    p->kind = (int)piece->kind;
    return MICA_OK;
}

/* ---- ways ---- */

mc_splitter *way_open(const way *w, parts *p) {
    mc_splitter *s;
    *p = (parts){.kind = -1, .sound = SIZE_MAX};
    assert_int_equal(mc_splitter_open(&w->format, w->tools, w->is_open, parts_take, p, &s),
                     MICA_OK);
    if (w->streams) mc_splitter_stream_calls(s);
    if (w->one_call) mc_splitter_keep_one_call(s);
    return s;
}

size_t way_mark(const way *w, const char *text) {
    size_t found = MC_MARKS, longest = 0;
    const char *mark;
    for (size_t i = 0; w->tokens && (mark = mc_answer_mark(i)) != NULL; i++)
        if ((w->format.tokens >> i & 1) && strlen(mark) > longest &&
            strncmp(text, mark, strlen(mark)) == 0) {
            found = i;
            longest = strlen(mark);
        }
    return found;
}

void way_push(mc_splitter *s, const way *w, const char *answer) {
    size_t len = strlen(answer);
    for (size_t at = 0, n = w->first, to; at < len; n = w->step) {
        size_t mark = MC_MARKS;
        for (to = at; to < len && to - at < n && mark == MC_MARKS;)
            if ((mark = way_mark(w, answer + to)) == MC_MARKS) to++;
        assert_int_equal(mc_splitter_push(s, answer + at, to - at), MICA_OK);
        at = to;
        if (mark == MC_MARKS) continue;
        assert_int_equal(mc_splitter_push_token(s, w->format.ids[mark], "", 0), MICA_OK);
        at += strlen(mc_answer_mark(mark));
    }
}

void way_read(const way *w, const char *answer, parts *p) {
    mc_splitter *s = way_open(w, p);
    way_push(s, w, answer);
    assert_int_equal(mc_splitter_end(s), MICA_OK);
    assert_int_equal(mc_splitter_end(s), MICA_OK);
    mc_splitter_close(&s);
}

char *way_split(const way *w, const char *answer) {
    parts p;
    way_read(w, answer, &p);
    return mc_buffer_take(&p.text);
}

void expect_one(const way *w, const char *answer, const char *want) {
    char *got = way_split(w, answer);
    if (strcmp(got, want) != 0)
        fail_msg("%s%s%s, in pieces of %zu and %zu:\n\"%s\" gives\n\"%s\", want\n\"%s\"",
                 w->format.calls->name, w->streams ? ", streamed" : "", w->tokens ? ", tokens" : "",
                 w->first, w->step, answer, got, want);
    free(got);
}

void expect_way(way w, const char *answer, const char *want) {
    size_t len = strlen(answer);
    for (w.first = w.step = 1; w.step <= 9; w.first = ++w.step)
        expect_one(&w, answer, want);
    w.step = len;
    for (w.first = 1; w.first <= len; w.first++)
        expect_one(&w, answer, want);
}

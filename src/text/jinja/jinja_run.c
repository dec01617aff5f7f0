/* The run: its first error, its limits, its memory, and its output. */
#include "text/jinja/jinja_value.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PAUSE 65536u /* steps, about a millisecond */
#define MAX_DEPTH 500

/* A limit of a run: a base, plus an amount for each byte of its variables, up to a maximum. */
typedef struct bound {
    size_t base, factor, max;
} bound;

static const bound steps_bound = {20000000, 4, 200000000};
static const bound memory_bound = {(size_t)32 << 20, 256, (size_t)256 << 20};
static const bound output_bound = {(size_t)4 << 20, 16, (size_t)64 << 20};

static size_t bound_of(const bound *b, size_t variables) {
    size_t more = b->max - b->base;
    return b->base + (variables < more / b->factor ? variables * b->factor : more);
}

void mc_jbound(mc_jrun *r) {
    size_t variables = r->bytes + r->given;
    r->max_steps = r->options->max_steps;
    if (!r->max_steps) r->max_steps = bound_of(&steps_bound, variables);
    r->max_bytes = r->bytes + bound_of(&memory_bound, variables);
    r->max_output = bound_of(&output_bound, variables);
}

void mc_jfail(mc_jrun *r, mica_status status, const char *fmt, ...) {
    char text[1024]; /* the maximum of an error text */
    va_list args;
    if (r->status != MICA_OK) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->status = mc_fail(status, "%s, line %u: %s", r->name, (unsigned)r->line, text);
}

void mc_jpause(mc_jrun *r) {
    if (r->steps > r->max_steps)
        mc_jfail(r, MICA_EFORMAT, "the template takes more than %" PRIu64 " steps", r->max_steps);
    if (r->status == MICA_OK) r->status = mc_cancel_check(r->options->cancel);
    r->pause = r->steps + PAUSE;
    if (r->steps <= r->max_steps && r->pause > r->max_steps) r->pause = r->max_steps + 1;
}

bool mc_jenter(mc_jrun *r) {
    mc_jcharge(r, 1);
    if (r->status != MICA_OK) return false;
    if (r->depth >= MAX_DEPTH) {
        mc_jfail(r, MICA_EFORMAT, "nested more than %d levels deep", MAX_DEPTH);
        return false;
    }
    r->depth++;
    return true;
}

void mc_jleave(mc_jrun *r) {
    r->depth--;
}

void *mc_jalloc(mc_jrun *r, size_t bytes) {
    if (r->status != MICA_OK) return NULL;
    if (bytes > r->max_bytes - r->bytes) {
        mc_jfail(r, MICA_EFORMAT, "the template takes more than %zu MB of memory",
                 r->max_bytes >> 20);
        return NULL;
    }
    void *memory = mc_arena_calloc(&r->arena, bytes);
    r->bytes += bytes;
    if (!memory) r->status = mc_fail_nomem(r->name);
    return memory;
}

size_t mc_jmark(const mc_jrun *r) {
    return r->out->len;
}

void mc_jput(mc_jrun *r, mc_str text) {
    if (r->status != MICA_OK) return;
    if (text.len > r->max_output - (r->out->len - r->out_start)) {
        mc_jfail(r, MICA_EFORMAT, "the text is longer than %zu MB", r->max_output >> 20);
    } else if (!mc_buffer_add(r->out, text.ptr, text.len)) {
        r->status = mc_fail_nomem(r->name);
    }
    mc_jcharge_copy(r, text.len);
}

void mc_jput_text(mc_jrun *r, const char *text) {
    mc_jput(r, mc_str_of(text));
}

void mc_jput_char(mc_jrun *r, uint32_t codepoint) {
    char bytes[4];
    mc_jput(r, (mc_str){bytes, mc_utf8_encode(codepoint, bytes)});
}

void mc_jputf(mc_jrun *r, const char *fmt, ...) {
    char text[512]; /* for numbers: a double with %f has at most 310 digits before its point */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mc_jcharge(r, 8); /* printf is slow, especially for numbers of many digits */
    mc_jcharge(r, strlen(text));
    mc_jput_text(r, text);
}

mc_jvalue mc_jtake(mc_jrun *r, size_t mark) {
    size_t len = r->out->len - mark;
    char *copy = mc_jalloc(r, len);
    if (copy && len) memcpy(copy, r->out->data + mark, len);
    r->out->len = mark;
    return mc_jstr(copy ? (mc_str){copy, len} : MC_STR(""));
}

#include "answer/call_marked.h"

#include "answer/call_python.h"
#include "answer/call_value.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "text/find.h"

#include <string.h>

enum { MAX_HEAD = 512 }; /* bytes before the arguments, and before a value */

/* Whether a text begins with something. */
typedef enum match { NO, PART, YES } match;

/* Reads a literal behind white space; white space in it stands for any, or none. `at` moves on
 * for YES alone. A text that ends before is a part. */
static match read_literal(mc_str text, size_t *at, const char *literal) {
    size_t i = mc_json_skip_space(text, *at);
    for (const char *c = literal; *c; c++) {
        if (mc_json_is_space(*c)) {
            i = mc_json_skip_space(text, i);
            continue;
        }
        if (i == text.len) return PART;
        if (text.ptr[i++] != *c) return NO;
    }
    *at = *literal ? i : *at;
    return YES;
}

/* What can be looked at before arguments and values: a bound, wherever pieces of an answer end. */
static mc_str window(mc_str text) {
    return (mc_str){text.ptr, text.len < MAX_HEAD ? text.len : MAX_HEAD};
}

/* Whether a part of what was looked for may become all of it. */
static bool may_wait(match found, mc_str text) {
    return found == PART && text.len < MAX_HEAD;
}

/* What comes of a call that is not complete; `waits`: it may yet be. */
static mc_call_event unfinished(bool waits, bool ended) {
    return !waits ? MC_CALL_BREAKS : ended ? MC_CALL_CUT : MC_CALL_WAITS;
}

/* Reads the block's end behind white space. Of one that is cut there may be a part, or nothing. */
static match read_end(const mc_call_stream *s, mc_str text, bool ended, size_t *at) {
    size_t i = mc_json_skip_space(text, *at);
    const mc_str rest = mc_str_from(text, i);
    bool part = rest.len < s->end.len && mc_str_starts(s->end, rest);
    if (s->end.len && mc_str_starts(rest, s->end)) {
        *at = i + s->end.len;
        return YES;
    }
    if (part && ended) *at = text.len;
    if (part) return ended ? YES : PART;
    return NO;
}

/* ---- before the arguments ---- */

/* Reads the tool's name; NO: there is none of it. */
static match read_name(mc_call_stream *s, mc_str text, size_t *at, mc_str *name) {
    size_t from = mc_json_skip_space(text, *at), to = from;
    while (to < text.len && mc_is_python_name(text.ptr[to]))
        to++;
    if (to == text.len) return PART;
    *at = to;
    *name = (mc_str){text.ptr + from, to - from};
    s->tool = mc_tools_find(s->tools, *name);
    size_t prefix = s->syntax->prefix ? strlen(s->syntax->prefix) : 0;
    if (!s->tool && prefix && mc_str_starts(*name, mc_str_of(s->syntax->prefix))) {
        *name = mc_str_from(*name, prefix);
        s->tool = mc_tools_find(s->tools, *name);
    }
    return s->tool ? YES : NO;
}

/* Reads what stands between the name and the arguments. */
static match read_named(const mc_call_stream *s, mc_str text, size_t *at) {
    const mc_str named = mc_str_of(s->syntax->named);
    if (!s->syntax->skips) return read_literal(text, at, s->syntax->named);
    size_t found = mc_find(text, named, *at);
    if (found == text.len) return PART;
    *at = found + named.len;
    return YES;
}

static void begin_arguments(mc_call_stream *s) {
    s->part = MC_CALL_ARGUMENTS;
    s->begun = true;
    s->json = (mc_json_scan){.depth = 0};
    s->count = s->scanned = s->tried = 0;
    mc_map_deinit(&s->keys);
    mc_arena_reset(&s->names);
}

static match read_head(mc_call_stream *s, mc_str text, size_t *at, mc_str *name) {
    match found = read_literal(text, at, s->syntax->open);
    if (found == YES) found = read_name(s, text, at, name);
    if (found == YES) found = read_named(s, text, at);
    return found;
}

static void read_between(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    size_t at = 0;
    mc_str name = {NULL, 0};
    const mc_str near = window(text);
    match found = s->begun ? read_end(s, near, ended && near.len == text.len, &at) : NO;
    bool one = s->begun && !s->end.len; /* a block without an end has one call */
    if (found == YES || one) {
        *step = (mc_call_step){MC_CALL_CLOSES, one ? 0 : at, {NULL, 0}};
        return;
    }
    if (found == NO) {
        found = read_head(s, near, &at, &name);
        if (found == YES) step->event = MC_CALL_BEGINS;
    }
    if (found != YES) step->event = unfinished(may_wait(found, text), ended);
    if (found != YES) return;
    step->used = at;
    step->text = name;
    begin_arguments(s);
}

/* ---- arguments ---- */

static mica_status read_json(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    bool good;
    if (mc_json_scan_is_done(&s->json)) {
        s->part = MC_CALL_TAIL;
        step->event = MC_CALL_ENDS;
        return MICA_OK;
    }
    if (!s->json.depth) { /* an object, and white space before it, which is dropped */
        size_t at = mc_json_skip_space(text, 0);
        if (at < text.len && text.ptr[at] != '{') step->event = MC_CALL_BREAKS;
        if (at == text.len || text.ptr[at] != '{') {
            if (at == text.len) step->event = unfinished(true, ended);
            return MICA_OK;
        }
        if (at) {
            step->used = at;
            return MICA_OK; /* the next step goes on */
        }
    }
    MC_TRY(mc_json_scan_push(&s->json, text, &step->used, &good));
    if (good && ended && !mc_json_scan_is_done(&s->json)) step->used = text.len; /* as it is */
    step->text = (mc_str){text.ptr, step->used};
    step->event = step->used ? MC_CALL_TEXT : unfinished(good, ended);
    return MICA_OK;
}

/* Notes the key of the argument in `out`. *good: no argument before has it. */
static mica_status note_key(mc_call_stream *s, bool *good) {
    size_t from = s->count ? strlen(", \"") : strlen("{\""), to = from;
    uint64_t before;
    while (s->out.data[to] != '"')
        to += s->out.data[to] == '\\' ? 2 : 1;
    const mc_str key = {s->out.data + from, to - from};
    *good = !mc_map_find(&s->keys, key, &before);
    if (!*good) return MICA_OK;
    const char *kept = mc_arena_strndup(&s->names, key.ptr, key.len);
    if (!kept || !mc_map_put(&s->keys, (mc_str){kept, key.len}, 0)) return mc_fail_nomem("a call");
    s->count++;
    return MICA_OK;
}

static mica_status read_bare(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    mc_python_part part;
    bool good = true;
    if (mc_json_scan_is_done(&s->json)) { /* the bracket is read */
        s->part = MC_CALL_TAIL;
        step->event = MC_CALL_ENDS;
        return MICA_OK;
    }
    MC_TRY(mc_python_argument_try(text, mc_str_of(s->syntax->quote), ended, s->count, &s->tried,
                                  &s->out, &step->used, &part));
    if (part == MC_PYTHON_END) s->json.expect = MC_JSON_EXPECT_END;
    step->text = (mc_str){s->out.data, s->out.len};
    step->event = MC_CALL_TEXT;
    if (part == MC_PYTHON_ARGUMENT) MC_TRY(note_key(s, &good));
    if (!good || part == MC_PYTHON_CUT || part == MC_PYTHON_BAD)
        step->event = unfinished(part == MC_PYTHON_CUT, ended);
    return MICA_OK;
}

/* Whether the arguments end here: what closes them is read later. */
static match at_close(const mc_call_stream *s, mc_str text, bool ended) {
    size_t at = 0;
    if (*s->syntax->close) return read_literal(text, &at, s->syntax->close);
    if (mc_json_skip_space(text, 0) == text.len) return PART;
    return read_end(s, text, ended, &at);
}

/* Adds `{"key": value`, or the same behind a comma. *good: they are UTF-8, and the key is new. */
static mica_status add_argument(mc_call_stream *s, mc_str key, mc_str value, bool *good) {
    mc_buffer plain = {0};
    mica_status status = MICA_OK;
    bool done = mc_call_text_add(key, &plain);
    const mc_str name = {plain.data ? plain.data : "", plain.len};
    *good = mc_utf8_valid(name.ptr, name.len);
    done =
        done && (!*good || (mc_buffer_add_text(&s->out, s->count ? ", \"" : "{\"") &&
                            mc_json_escape(&s->out, name) && mc_buffer_add_text(&s->out, "\": ")));
    if (!done)
        status = mc_fail_nomem("a call of a tool");
    else if (*good)
        status = mc_call_value_add(s->tool, name, value, s->is_string, &s->out, good);
    if (status == MICA_OK && *good) status = note_key(s, good);
    mc_buffer_deinit(&plain);
    return status;
}

/* A value is what stands between literals, but for the line breaks that these have at that side:
 * they are one each. */
static mc_str trim(const mc_call_syntax *y, mc_str value) {
    if (y->assign[strlen(y->assign) - 1] == '\n' && value.len && *value.ptr == '\n')
        value = mc_str_from(value, 1);
    if (*y->end == '\n' && value.len && value.ptr[value.len - 1] == '\n') value.len--;
    return value;
}

/* Reads what assigns, which may say that the value is a string. */
static match read_assign(mc_call_stream *s, mc_str text, size_t *at) {
    const mc_call_syntax *y = s->syntax;
    match found = read_literal(text, at, y->assign), string = NO;
    if (found != YES && y->assign_text) string = read_literal(text, at, y->assign_text);
    s->is_string = string == YES;
    return string > found ? string : found;
}

/* Reads a key. *at: behind it, and what assigns. */
static match read_key(mc_call_stream *s, mc_str text, size_t *at, mc_str *key) {
    match found = read_literal(text, at, s->syntax->key);
    size_t from = *at;
    for (size_t to = from; found == YES && to < text.len; to++) {
        if (text.ptr[to] != *s->syntax->assign) continue;
        *at = to;
        match assigned = read_assign(s, text, at);
        if (assigned == NO) continue;
        *key = (mc_str){text.ptr + from, to - from};
        return key->len ? assigned : NO;
    }
    return found == YES ? PART : found;
}

/* Reads on in JSON, whose strings may have in them what ends a value; *waits: there may be more.
 * Other values, and JSON that breaks off, are texts. */
static mica_status skip_json(mc_call_stream *s, mc_str text, size_t from, bool ended, bool *waits) {
    size_t used;
    bool good;
    MC_TRY(mc_json_scan_push(&s->value, mc_str_from(text, s->scanned), &used, &good));
    s->scanned += used;
    bool done = mc_json_scan_is_done(&s->value);
    *waits = good && !done && !ended;
    if (!*waits && !done) s->scanned = from;
    s->is_text = !*waits;
    return MICA_OK;
}

/* Begins to read a value. What ends it may be a token, which no JSON has. */
static void begin_value(mc_call_stream *s, mc_str key, mc_str mark, size_t at) {
    if (s->scanned >= at) return; /* it has begun */
    s->scanned = at;
    s->value = (mc_json_scan){.depth = 0};
    s->is_text = s->is_string || (uint8_t)*mark.ptr == MC_MARK ||
                 mc_tool_takes_text(s->tool->parameters, key);
}

/* Reads a value behind `at`, what ends it included. Bytes are looked at once, or twice in JSON that
 * breaks off. *found: it is all there. */
static mica_status find_value(mc_call_stream *s, mc_str text, bool ended, mc_str key, size_t at,
                              mc_str *value, size_t *used, bool *found) {
    const mc_call_syntax *y = s->syntax;
    const mc_str mark = mc_str_of(*y->end == '\n' ? y->end + 1 : y->end);
    bool breaks = y->assign[strlen(y->assign) - 1] == '\n';
    while (breaks && mc_json_is_space(text.ptr[at - 1])) /* it belongs to the value */
        at--;
    begin_value(s, key, mark, at);
    bool waits = false;
    *found = false;
    if (!s->is_text) MC_TRY(skip_json(s, text, at, ended, &waits));
    if (waits) return MICA_OK;
    size_t to = mc_find(text, mark, s->scanned);
    if (to == text.len) {
        if (text.len >= mark.len && text.len - mark.len + 1 > s->scanned)
            s->scanned = text.len - mark.len + 1; /* the rest may begin it */
        return MICA_OK;
    }
    *value = trim(y, (mc_str){text.ptr + at, to - at});
    *used = to + mark.len;
    s->scanned = 0;
    *found = true;
    return MICA_OK;
}

static mica_status end_arguments(mc_call_stream *s, mc_call_step *step) {
    s->json.expect = MC_JSON_EXPECT_END;
    if (!mc_buffer_add_text(&s->out, s->count ? "}" : "{}")) return mc_fail_nomem("a call");
    *step = (mc_call_step){MC_CALL_TEXT, 0, {s->out.data, s->out.len}};
    return MICA_OK;
}

static mica_status read_keyed(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    mc_str key = {NULL, 0}, value = {NULL, 0};
    size_t at = 0;
    bool good = true, found = false;
    const mc_str near = window(text);
    if (mc_json_scan_is_done(&s->json)) {
        s->part = MC_CALL_TAIL;
        step->event = MC_CALL_ENDS;
        return MICA_OK;
    }
    mc_buffer_clear(&s->out);
    match closes = at_close(s, near, ended && near.len == text.len);
    if (closes == YES) return end_arguments(s, step);
    match begins = read_key(s, near, &at, &key);
    bool waits = may_wait(closes, text) || may_wait(begins, text);
    if (begins == YES) MC_TRY(find_value(s, text, ended, key, at, &value, &step->used, &found));
    if (found) {
        MC_TRY(add_argument(s, key, value, &good));
        step->event = good ? MC_CALL_TEXT : MC_CALL_BREAKS;
        step->text = (mc_str){s->out.data, s->out.len};
        return MICA_OK;
    }
    step->event = unfinished(waits || begins == YES, ended);
    return MICA_OK;
}

/* ---- behind arguments ---- */

static void read_tail(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    size_t at = 0;
    match found = read_literal(window(text), &at, s->syntax->close);
    if (found == YES) {
        s->part = MC_CALL_BETWEEN;
        step->used = at; /* nothing to tell; the next step goes on */
    } else if (ended && found == PART && text.len < MAX_HEAD) {
        *step = (mc_call_step){MC_CALL_CLOSES, text.len, {NULL, 0}}; /* it is cut within that */
    } else {
        step->event = unfinished(may_wait(found, text), ended);
    }
}

mica_status mc_call_marked_next(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    *step = (mc_call_step){.event = MC_CALL_WAITS};
    if (s->part == MC_CALL_TAIL && !*s->syntax->close) s->part = MC_CALL_BETWEEN;
    if (s->part == MC_CALL_TAIL)
        read_tail(s, text, ended, step);
    else if (s->part == MC_CALL_BETWEEN)
        read_between(s, text, ended, step);
    else if (s->body == MC_CALLS_NAMED)
        return read_json(s, text, ended, step);
    else if (s->body == MC_CALLS_BARE)
        return read_bare(s, text, ended, step);
    else
        return read_keyed(s, text, ended, step);
    return MICA_OK;
}

void mc_call_marked_begin(mc_call_stream *s, const mc_tool *tool) {
    s->tool = tool;
    begin_arguments(s);
}

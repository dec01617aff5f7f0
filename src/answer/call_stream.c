#include "answer/call_stream.h"

#include "answer/call_python.h"

#include <string.h>

enum { MAX_HEAD = 4096 }; /* bytes before the arguments; calls with more are read whole */

mc_call_stream mc_call_stream_of(const mc_call_block *block, const mc_tools *tools) {
    return (mc_call_stream){.tools = tools,
                            .body = block->body,
                            .syntax = block->syntax,
                            .end = block->end ? mc_str_of(block->end) : MC_STR("")};
}

void mc_call_stream_deinit(mc_call_stream *stream) {
    mc_buffer_deinit(&stream->out);
    mc_map_deinit(&stream->keys);
    mc_arena_deinit(&stream->names);
}

static char char_at(mc_str text, size_t at) {
    return at < text.len ? text.ptr[at] : '\0';
}

/* ---- what stands before arguments ---- */

/* A call's beginning, up to its arguments. */
typedef struct head {
    mc_str name; /* len 0: not read yet */
    size_t at;
    size_t objects; /* that the arguments are in */
} head;

/* Reads a string without escapes. false: it is none, or not complete, and then h->at is the text's
 * end. */
static bool read_plain(mc_str text, head *h, mc_str *string) {
    if (char_at(text, h->at) != '"') return false;
    size_t from = h->at + 1, at = from;
    while (at < text.len && text.ptr[at] != '"' && text.ptr[at] != '\\')
        at++;
    *string = (mc_str){text.ptr + from, at - from};
    if (at == text.len) h->at = at;
    if (at == text.len || text.ptr[at] == '\\') return false;
    h->at = at + 1;
    return true;
}

/* Reads c among white space. */
static bool read_mark(mc_str text, head *h, char c) {
    h->at = mc_json_skip_space(text, h->at);
    if (char_at(text, h->at) != c) return false;
    h->at = mc_json_skip_space(text, h->at + 1);
    return true;
}

/* Reads a member before the arguments. *found: it is the arguments. false: as read_plain. */
static bool read_member(mc_str text, head *h, bool *found) {
    mc_str key, value;
    if (!read_plain(text, h, &key) || !read_mark(text, h, ':')) return false;
    bool object = char_at(text, h->at) == '{';
    *found = h->name.len && object && (mc_str_is(key, "arguments") || mc_str_is(key, "parameters"));
    if (*found) return true;
    if (object && mc_str_is(key, "function") && !h->name.len && h->objects == 1) {
        h->objects++;
        h->at = mc_json_skip_space(text, h->at + 1);
        return true;
    }
    if (!read_plain(text, h, &value)) return false;
    if ((mc_str_is(key, "name") || mc_str_is(key, "tool_name")) && !h->name.len) h->name = value;
    return read_mark(text, h, ',');
}

/* Reads the beginning of a call in JSON. MC_CALL_BEGINS: all of it. */
static mc_call_event read_json_head(const mc_call_stream *s, mc_str text, head *h) {
    bool found = false, good = char_at(text, h->at) == '{';
    if (good) h->at = mc_json_skip_space(text, h->at + 1);
    h->objects = 1;
    while (good && !found)
        good = read_member(text, h, &found) && (!h->name.len || mc_tools_find(s->tools, h->name));
    if (good) return MC_CALL_BEGINS;
    return h->at == text.len && text.len < MAX_HEAD ? MC_CALL_WAITS : MC_CALL_WHOLE;
}

/* Reads the beginning of a call in Python: it is one if an argument can be read behind it. */
static mica_status read_python_head(mc_call_stream *s, mc_str text, bool ended, head *h,
                                    mc_call_event *event) {
    size_t from = h->at, used;
    mc_python_part part;
    while (h->at < text.len && mc_is_python_name(text.ptr[h->at]))
        h->at++;
    h->name = (mc_str){text.ptr + from, h->at - from};
    h->at = mc_json_skip_space(text, h->at);
    bool open = char_at(text, h->at) == '(', known = open && mc_tools_find(s->tools, h->name);
    h->at += open; /* the argument's white space is read with it */
    *event = !open && h->at == text.len && text.len < MAX_HEAD ? MC_CALL_WAITS : MC_CALL_WHOLE;
    if (!known) return MICA_OK;
    s->count = 0;
    MC_TRY(mc_python_argument_try(mc_str_from(text, h->at), MC_STR(""), ended, s->count, &s->tried,
                                  &s->out, &used, &part));
    if (part == MC_PYTHON_CUT) *event = MC_CALL_WAITS;
    if (part == MC_PYTHON_ARGUMENT || part == MC_PYTHON_END) *event = MC_CALL_BEGINS;
    return MICA_OK;
}

/* ---- between calls ---- */

/* Whether the text begins with the block's end, of which an answer that is cut may have a part.
 * *len: its length. *waits: it may do so. */
static bool is_end(const mc_call_stream *s, mc_str text, bool ended, size_t *len, bool *waits) {
    bool part = text.len < s->end.len && mc_str_starts(s->end, text);
    *len = text.len < s->end.len ? text.len : s->end.len;
    *waits = !ended && (part || !text.len);
    if (part || !text.len) return ended;
    return s->end.len && mc_str_starts(text, s->end);
}

/* Skips a run of white space, of which is remembered how far it goes: it may come byte by byte. */
static size_t skip_run(mc_call_stream *s, mc_str text, size_t at, size_t run) {
    s->runs[run] = mc_json_skip_space(text, at < s->runs[run] ? s->runs[run] : at);
    return s->runs[run];
}

/* Reads the commas and brackets between calls. false: no call may follow here. */
static bool read_separator(mc_call_stream *s, mc_str text, size_t *at, bool *in_list) {
    bool comma = false, semicolons = !*in_list || s->body == MC_CALLS_PYTHON;
    *at = skip_run(s, text, *at, 0);
    if (!s->begun) {
        *in_list = char_at(text, *at) == '[';
        if (*in_list) *at = skip_run(s, text, *at + 1, 1);
        return true;
    }
    if (char_at(text, *at) == ',' || (semicolons && char_at(text, *at) == ';')) {
        comma = true;
        *at = skip_run(s, text, *at + 1, 1);
    }
    if (*in_list && char_at(text, *at) == ']') {
        *in_list = false;
        *at = skip_run(s, text, *at + 1, 2);
        if (char_at(text, *at) == ',' || char_at(text, *at) == ';')
            *at = skip_run(s, text, *at + 1, 3);
        return s->body == MC_CALLS_JSON;
    }
    return comma || !*in_list || s->body == MC_CALLS_PYTHON;
}

static mica_status read_between(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    head h = {.at = 0};
    bool in_list = s->in_list, waits = false;
    size_t used, mark;
    bool call = read_separator(s, text, &h.at, &in_list);
    if (s->begun && !in_list && is_end(s, mc_str_from(text, h.at), ended, &mark, &waits)) {
        *step = (mc_call_step){MC_CALL_CLOSES, h.at + mark, {NULL, 0}};
        return MICA_OK;
    }
    used = s->begun ? h.at : 0;
    if (waits || (h.at == text.len && !ended)) {
        step->event = MC_CALL_WAITS;
        return MICA_OK;
    }
    if (!call) {
        *step = (mc_call_step){MC_CALL_BREAKS, in_list ? 0 : used, {NULL, 0}};
        return MICA_OK;
    }
    if (s->body == MC_CALLS_JSON)
        step->event = read_json_head(s, text, &h);
    else
        MC_TRY(read_python_head(s, text, ended, &h, &step->event));
    if (step->event == MC_CALL_WAITS && ended) step->event = MC_CALL_WHOLE;
    if (step->event == MC_CALL_WAITS) return MICA_OK;
    if (step->event == MC_CALL_BEGINS || s->begun) s->in_list = in_list;
    step->used = used;
    if (step->event != MC_CALL_BEGINS) return MICA_OK;
    *step = (mc_call_step){MC_CALL_BEGINS, h.at, h.name};
    s->part = MC_CALL_ARGUMENTS;
    s->begun = true;
    s->objects = h.objects;
    s->json = (mc_json_scan){.depth = 0};
    s->count = 0;
    return MICA_OK;
}

/* ---- arguments ---- */

static mica_status read_json(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    bool good;
    if (mc_json_scan_is_done(&s->json)) {
        s->part = MC_CALL_TAIL;
        s->json = mc_json_scan_within(s->objects);
        s->scanned = 0;
        step->event = MC_CALL_ENDS;
        return MICA_OK;
    }
    MC_TRY(mc_json_scan_push(&s->json, text, &step->used, &good));
    if (good && ended && !mc_json_scan_is_done(&s->json)) step->used = text.len; /* as it is */
    step->text = (mc_str){text.ptr, step->used};
    step->event = step->used ? MC_CALL_TEXT : good && !ended ? MC_CALL_WAITS : MC_CALL_BREAKS;
    return MICA_OK;
}

static mica_status read_python(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    mc_python_part part;
    if (mc_json_scan_is_done(&s->json)) { /* the parenthesis is read */
        s->part = MC_CALL_BETWEEN;
        step->event = MC_CALL_ENDS;
        return MICA_OK;
    }
    MC_TRY(mc_python_argument_try(text, MC_STR(""), ended, s->count, &s->tried, &s->out,
                                  &step->used, &part));
    if (part == MC_PYTHON_ARGUMENT) s->count++;
    if (part == MC_PYTHON_END) s->json.expect = MC_JSON_EXPECT_END;
    step->text = (mc_str){s->out.data, s->out.len};
    step->event = MC_CALL_TEXT;
    if (part == MC_PYTHON_CUT) step->event = ended ? MC_CALL_BREAKS : MC_CALL_WAITS;
    if (part == MC_PYTHON_BAD) step->event = MC_CALL_BREAKS;
    return MICA_OK;
}

/* ---- what stands behind arguments ---- */

static bool is_closed(mc_str text) {
    for (size_t i = 0; i < text.len; i++)
        if (!mc_json_is_space(text.ptr[i]) && text.ptr[i] != '}' && text.ptr[i] != ']')
            return false;
    return true;
}

/* Reads up to the end of the call's object. A block may end before: models forget brackets. */
static mica_status read_tail(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    size_t read, mark;
    bool good, waits = false;
    MC_TRY(mc_json_scan_push(&s->json, mc_str_from(text, s->scanned), &read, &good));
    s->scanned += read;
    if (mc_json_scan_is_done(&s->json)) {
        s->part = MC_CALL_BETWEEN;
        step->used = s->scanned;
        step->event = MC_CALL_WAITS; /* nothing to tell; the next step goes on */
        return MICA_OK;
    }
    if (!good && s->end.len && is_end(s, mc_str_from(text, s->scanned), ended, &mark, &waits))
        *step = (mc_call_step){MC_CALL_CLOSES, s->scanned + mark, {NULL, 0}};
    else if (good && ended && is_closed(text))
        *step = (mc_call_step){MC_CALL_CLOSES, text.len, {NULL, 0}};
    else
        step->event = waits || (good && !ended) ? MC_CALL_WAITS : MC_CALL_BREAKS;
    return MICA_OK;
}

static mica_status read_next(mc_call_stream *s, mc_str text, bool ended, mc_call_step *step) {
    if (s->part == MC_CALL_TAIL) return read_tail(s, text, ended, step);
    if (s->part == MC_CALL_BETWEEN) return read_between(s, text, ended, step);
    return s->body == MC_CALLS_JSON ? read_json(s, text, ended, step)
                                    : read_python(s, text, ended, step);
}

mica_status mc_call_stream_next(mc_call_stream *stream, mc_str text, bool ended,
                                mc_call_step *step) {
    *step = (mc_call_step){.event = MC_CALL_WAITS};
    mica_status status = read_next(stream, text, ended, step);
    if (step->event != MC_CALL_WAITS || step->used) memset(stream->runs, 0, sizeof stream->runs);
    return status;
}

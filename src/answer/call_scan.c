#include "answer/call_scan.h"

#include "answer/call_python.h"
#include "text/find.h"

mc_call_scan mc_call_scan_of(const mc_call_block *block, bool begun, bool in_list) {
    mc_call_scan scan = {.block = block};
    if (block->first && !begun)
        scan.part = MC_SCAN_BEGIN;
    else
        scan.part = block->body == MC_CALLS_PYTHON ? MC_SCAN_CODE : MC_SCAN_VALUE;
    scan.json.depth = in_list; /* objects[0]: it is none */
    return scan;
}

bool mc_call_scan_may_end(const mc_call_scan *scan) {
    return scan->part == MC_SCAN_BEHIND || scan->part == MC_SCAN_BETWEEN ||
           scan->part == MC_SCAN_CODE;
}

/* Skips white space. Returns whether something follows. */
static bool reach(mc_call_scan *s, mc_str text) {
    s->at = mc_json_skip_space(text, s->at);
    return s->at < text.len;
}

/* ---- what calls begin with that are the whole answer ---- */

/* The first key of a call: other objects are what the model says. */
static mc_call_extent scan_key(mc_call_scan *s, mc_str text) {
    static const char *const keys[] = {"\"name\"",      "\"type\"",       "\"function\"",
                                       "\"arguments\"", "\"parameters\"", "\"id\""};
    if (!reach(s, text)) return MC_CALLS_WAIT;
    const mc_str rest = mc_str_from(text, s->at);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const mc_str key = mc_str_of(keys[i]);
        if (mc_str_starts(rest, key)) {
            s->part = MC_SCAN_VALUE;
            s->at = 0; /* JSON is read from the block's beginning */
            return MC_CALLS_WAIT;
        }
        if (mc_str_starts(key, rest)) return MC_CALLS_WAIT;
    }
    return MC_CALLS_BROKEN;
}

static mc_call_extent scan_object(mc_call_scan *s, mc_str text) {
    if (!reach(s, text)) return MC_CALLS_WAIT;
    if (text.ptr[s->at] != '{') return MC_CALLS_BROKEN;
    s->at++;
    s->part = MC_SCAN_KEY;
    return scan_key(s, text);
}

static mc_call_extent scan_name(mc_call_scan *s, mc_str text) {
    if (!s->name && !reach(s, text)) return MC_CALLS_WAIT;
    if (!s->name) s->name = s->at;
    while (s->at < text.len && mc_is_python_name(text.ptr[s->at]))
        s->at++;
    if (s->at == text.len) return MC_CALLS_WAIT;
    if (s->at == s->name || text.ptr[s->at] != '(') return MC_CALLS_BROKEN;
    s->part = MC_SCAN_CODE;
    return MC_CALLS_WAIT;
}

static mc_call_extent scan_begin(mc_call_scan *s, mc_str text) {
    if (s->part == MC_SCAN_BEGIN && text.len) {
        s->at = 1; /* the block's mark is a bracket */
        s->part = s->block->body == MC_CALLS_PYTHON ? MC_SCAN_NAME
                  : *s->block->begin == '{'         ? MC_SCAN_KEY
                                                    : MC_SCAN_OBJECT;
    }
    if (s->part == MC_SCAN_OBJECT) return scan_object(s, text);
    if (s->part == MC_SCAN_KEY) return scan_key(s, text);
    return s->part == MC_SCAN_NAME ? scan_name(s, text) : MC_CALLS_WAIT;
}

/* ---- the rest ---- */

/* What stands behind a value: a comma or semicolon, the end, or the next value. Returns whether it
 * is the latter. */
static bool scan_separator(mc_call_scan *s, mc_str text, mc_call_extent *extent) {
    const mc_str mark = mc_str_of(s->block->end ? s->block->end : "");
    if (!reach(s, text)) return false;
    if (s->part == MC_SCAN_BEHIND && (text.ptr[s->at] == ',' || text.ptr[s->at] == ';')) {
        s->part = MC_SCAN_BETWEEN;
        s->at++;
        if (!reach(s, text)) return false;
    }
    const mc_str rest = mc_str_from(text, s->at);
    bool whole = mark.len && mc_str_starts(rest, mark);
    if (whole) *extent = MC_CALLS_END;
    if (whole || mc_str_starts(mark, rest)) return false;
    s->part = MC_SCAN_VALUE;
    s->json = (mc_json_scan){.depth = 0};
    return true;
}

static mica_status scan_json(mc_call_scan *s, mc_str text, mc_call_extent *extent) {
    do {
        size_t used = 0;
        bool good = true;
        if (s->part == MC_SCAN_VALUE)
            MC_TRY(mc_json_scan_push(&s->json, mc_str_from(text, s->at), &used, &good));
        s->at += used;
        if (!good) *extent = MC_CALLS_BROKEN;
        if (!mc_json_scan_is_done(&s->json)) return MICA_OK;
        if (s->part == MC_SCAN_VALUE) s->part = MC_SCAN_BEHIND;
    } while (scan_separator(s, text, extent));
    return MICA_OK;
}

/* Reads a byte of Python: whether a string begins or ends. */
static void scan_byte(mc_call_scan *s, char c) {
    bool escaped = s->escaped, inside = s->quote != 0;
    s->escaped = inside && !escaped && c == '\\';
    if (inside && !escaped && c == s->quote)
        s->quote = 0;
    else if (!inside && (c == '"' || c == '\''))
        s->quote = c;
}

/* Python ends with the first mark outside of strings. No block is within another, and few strings
 * have beginnings of blocks: what is full of these would be read again for each of them. */
static mc_call_extent scan_code(mc_call_scan *s, mc_str text) {
    enum { MAX_BEGUN = 16 };
    const mc_str mark = mc_str_of(s->block->end ? s->block->end : ""),
                 begin = mc_str_of(s->block->begin);
    if (!mark.len) return MC_CALLS_WAIT;
    bool nests = mc_find(begin, mark, 0) == begin.len, token = (uint8_t)*mark.ptr == MC_MARK;
    for (; s->at < text.len; s->at++) {
        const mc_str rest = mc_str_from(text, s->at);
        bool counts = !s->quote || token;
        if (counts && mc_str_starts(rest, mark)) return MC_CALLS_END;
        if (nests && mc_str_starts(rest, begin) && (counts || ++s->begun > MAX_BEGUN))
            return MC_CALLS_BROKEN;
        if (mc_str_starts(mark, rest) || (nests && mc_str_starts(begin, rest))) break;
        scan_byte(s, *rest.ptr);
    }
    return MC_CALLS_WAIT;
}

mica_status mc_call_scan_next(mc_call_scan *scan, mc_str text, mc_call_extent *extent) {
    *extent = MC_CALLS_WAIT;
    if (scan->part <= MC_SCAN_NAME) *extent = scan_begin(scan, text);
    if (scan->part <= MC_SCAN_NAME) return MICA_OK;
    if (scan->part != MC_SCAN_CODE) return scan_json(scan, text, extent);
    *extent = scan_code(scan, text);
    return MICA_OK;
}

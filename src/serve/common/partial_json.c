#include "serve/common/partial_json.h"

enum { MAX_DEPTH = 255 };

/* Where a text may end, and which brackets are open there. */
typedef struct scan {
    char open[MAX_DEPTH]; /* [depth] the brackets that end what is open */
    size_t depth, end, end_depth;
    bool value; /* what comes next is one, not a key */
} scan;

static void may_end(scan *s, size_t at) {
    s->end = at;
    s->end_depth = s->depth;
}

/* The end of a string that begins at `at`; text.len: it has none. */
static size_t skip_string(mc_str text, size_t at) {
    for (at++; at < text.len && text.ptr[at] != '"'; at++)
        if (text.ptr[at] == '\\') at++;
    return at < text.len ? at : text.len;
}

/* Takes a mark of JSON. false: the text is too deep. */
static bool take_mark(scan *s, char c, size_t at) {
    switch (c) {
    case '{':
    case '[':
        if (s->depth == MAX_DEPTH) return false;
        s->open[s->depth++] = c == '{' ? '}' : ']';
        s->value = c == '[';
        may_end(s, at + 1);
        break;
    case '}':
    case ']':
        if (s->depth) s->depth--;
        may_end(s, at + 1);
        break;
    case ',':
        may_end(s, at); /* what stands before it is complete */
        s->value = s->depth && s->open[s->depth - 1] == ']';
        break;
    case ':':
        s->value = true;
        break;
    default: /* of a number or a word, or white space */
        break;
    }
    return true;
}

bool mc_partial_json_close(mc_str text, mc_buffer *out) {
    scan s = {.depth = 0};
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '"') {
            if (!take_mark(&s, text.ptr[i], i)) break;
            continue;
        }
        i = skip_string(text, i);
        if (i < text.len && s.value) may_end(&s, i + 1);
    }
    if (!s.end) return mc_buffer_add_text(out, "{}");
    if (!mc_buffer_add(out, text.ptr, s.end)) return false;
    for (size_t depth = s.end_depth; depth > 0; depth--)
        if (!mc_buffer_add_byte(out, s.open[depth - 1])) return false;
    return true;
}

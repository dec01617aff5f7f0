#include "tune/records.h"

#include "base/json_write.h"
#include "base/utf8.h"

#include <string.h>

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static mc_str skip_blanks(mc_str text) {
    while (text.len && is_blank(*text.ptr))
        text = mc_str_from(text, 1);
    return text;
}

static mc_str skip_mark(mc_str text) {
    return mc_str_starts(text, MC_STR("\xEF\xBB\xBF")) ? mc_str_from(text, 3) : text;
}

static mica_status ill_formed(const mc_records *r, const char *what) {
    return mc_fail(MICA_EFORMAT, "%s: line %llu: %s", r->lines.path,
                   (unsigned long long)r->lines.number, what);
}

/* ---- arrays ---- */

/* Sets the rest to what follows blanks and line feeds. *there: there is something. */
static mica_status next_rest(mc_records *r, bool *there) {
    for (;;) {
        r->rest = skip_blanks(r->rest);
        *there = r->rest.len > 0;
        if (*there) return MICA_OK;
        MC_TRY(mc_lines_part(&r->lines, &r->rest, &r->ends_line));
        if (!r->rest.ptr) return MICA_OK;
    }
}

/* Tells an array by its bracket, and takes that. */
static mica_status begin(mc_records *r) {
    char c;
    bool there;
    r->begun = true;
    MC_TRY(mc_lines_peek(&r->lines, &c));
    if (c != '[') return MICA_OK;
    r->kind = MC_RECORDS_ARRAY;
    MC_TRY(mc_lines_part(&r->lines, &r->rest, &r->ends_line));
    r->rest = skip_mark(r->rest);
    MC_TRY(next_rest(r, &there));
    r->rest = mc_str_from(r->rest, there ? 1 : 0);
    return MICA_OK;
}

/* Where an element is, in its nesting. */
typedef struct nesting {
    size_t depth;
    bool string, escape;
} nesting;

/* Whether an element ends in front of the character, which is counted otherwise. */
static bool ends_before(nesting *n, char c) {
    bool escaped = n->escape;
    n->escape = n->string && c == '\\' && !escaped;
    if (n->string) {
        n->string = escaped || c != '"';
        return false;
    }
    if (n->depth == 0 && (c == ',' || c == ']')) return true;
    n->string = c == '"';
    if (c == '{' || c == '[') n->depth++;
    if ((c == '}' || c == ']') && n->depth) n->depth--;
    return false;
}

/* Reads an element, up to the comma or bracket behind it. */
static mica_status read_element(mc_records *r) {
    nesting n = {0};
    mc_buffer_clear(&r->record);
    r->number = r->lines.number;
    for (;;) {
        size_t i = 0;
        while (i < r->rest.len && !ends_before(&n, r->rest.ptr[i]))
            i++;
        bool line_feed = i == r->rest.len && r->ends_line;
        if (!mc_buffer_add(&r->record, r->rest.ptr, i) ||
            (line_feed && !mc_buffer_add_byte(&r->record, '\n')))
            return mc_fail_nomem(r->lines.path);
        if (r->record.len > MC_LINE_MAX)
            return ill_formed(r, "an element of the array is too large");
        r->rest = mc_str_from(r->rest, i);
        if (r->rest.len && !r->record.len)
            return ill_formed(r, "an element of the array is missing at a comma");
        if (r->rest.len) return MICA_OK;
        MC_TRY(mc_lines_part(&r->lines, &r->rest, &r->ends_line));
        if (!r->rest.ptr) return ill_formed(r, "the array does not end");
    }
}

/* What is behind an element: a comma, or the bracket at the end. */
static mica_status next_element(mc_records *r, mc_str *record) {
    bool there;
    MC_TRY(next_rest(r, &there));
    if (r->ended) return there ? ill_formed(r, "something follows the array") : MICA_OK;
    if (!there) return ill_formed(r, "the array does not end");
    if (*r->rest.ptr == ']') {
        r->ended = true;
        r->rest = mc_str_from(r->rest, 1);
        return next_element(r, record);
    }
    if (r->comma) {
        r->rest = mc_str_from(r->rest, 1);
        MC_TRY(next_rest(r, &there));
        if (!there) return ill_formed(r, "the array does not end");
    }
    r->comma = true;
    MC_TRY(read_element(r));
    *record = (mc_str){r->record.data, r->record.len};
    return MICA_OK;
}

/* ---- CSV ---- */

/* Adds what is in front of the quote that ends a field to its value. Lines may be in it. */
static mica_status read_quoted(mc_records *r, mc_str *text) {
    for (;;) {
        const char *quote = text->len ? memchr(text->ptr, '"', text->len) : NULL;
        size_t n = quote ? (size_t)(quote - text->ptr) : text->len;
        bool twin = quote && n + 1 < text->len && quote[1] == '"';
        if (!mc_buffer_add(&r->values, text->ptr, n) ||
            (twin && !mc_buffer_add_byte(&r->values, '"')) ||
            (!quote && !mc_buffer_add_byte(&r->values, '\n')))
            return mc_fail_nomem(r->lines.path);
        if (quote) *text = mc_str_from(*text, n + (twin ? 2 : 1));
        if (quote && !twin) return MICA_OK;
        if (quote) continue;
        MC_TRY(mc_lines_next(&r->lines, text));
        if (!text->ptr) return ill_formed(r, "a field in quotes does not end");
        if (r->values.len > MC_LINE_MAX) return ill_formed(r, "a record is too large");
    }
}

/* Reads a field from the beginning of *text, and the comma behind it. *more: there is one. */
static mica_status read_field(mc_records *r, mc_str *text, bool *more) {
    if (text->len && *text->ptr == '"') {
        *text = mc_str_from(*text, 1);
        MC_TRY(read_quoted(r, text));
        *text = skip_blanks(*text);
    } else {
        const char *comma = text->len ? memchr(text->ptr, ',', text->len) : NULL;
        size_t n = comma ? (size_t)(comma - text->ptr) : text->len;
        size_t kept = !comma && n && text->ptr[n - 1] == '\r' ? n - 1 : n;
        if (!mc_buffer_add(&r->values, text->ptr, kept)) return mc_fail_nomem(r->lines.path);
        *text = mc_str_from(*text, n);
    }
    *more = text->len && *text->ptr == ',';
    if (text->len && !*more) return ill_formed(r, "something follows a field in quotes");
    if (*more) *text = mc_str_from(*text, 1);
    return MC_BUFFER_PUSH(&r->ends, size_t, r->values.len) ? MICA_OK : mc_fail_nomem(r->lines.path);
}

/* Reads the fields of the record that begins with a line. */
static mica_status read_fields(mc_records *r, mc_str line) {
    bool more = true;
    mc_buffer_clear(&r->values);
    mc_buffer_clear(&r->ends);
    while (more)
        MC_TRY(read_field(r, &line, &more));
    return MICA_OK;
}

static mc_str field_at(const mc_records *r, size_t i) {
    const size_t *ends = MC_BUFFER_AT(&r->ends, size_t);
    size_t begin = i ? ends[i - 1] : 0;
    return (mc_str){r->values.len ? r->values.data + begin : "", ends[i] - begin};
}

static bool is_utf8(const mc_records *r) {
    return r->values.len == 0 || mc_utf8_valid(r->values.data, r->values.len);
}

static bool has_column(const mc_records *r, mc_str name) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&r->columns, mc_str); i++)
        if (mc_str_eq(MC_BUFFER_AT(&r->columns, mc_str)[i], name)) return true;
    return false;
}

static mica_status read_columns(mc_records *r, mc_str line) {
    MC_TRY(read_fields(r, skip_mark(line)));
    if (!is_utf8(r)) return ill_formed(r, "is not UTF-8");
    for (size_t i = 0; i < MC_BUFFER_COUNT(&r->ends, size_t); i++) {
        mc_str name = field_at(r, i);
        if (has_column(r, name))
            return mc_fail(MICA_EFORMAT, "%s: line %llu: two columns are named \"%.*s\"",
                           r->lines.path, (unsigned long long)r->lines.number, MC_STR_ARG(name));
        name.ptr = mc_arena_strndup(&r->arena, name.ptr, name.len);
        if (!name.ptr || !MC_BUFFER_PUSH(&r->columns, mc_str, name))
            return mc_fail_nomem(r->lines.path);
    }
    return MICA_OK;
}

/* Writes the last record as an object of texts. */
static mica_status put_object(mc_records *r) {
    size_t n = MC_BUFFER_COUNT(&r->columns, mc_str), found = MC_BUFFER_COUNT(&r->ends, size_t);
    r->misfit = n != found || !is_utf8(r);
    if (n != found)
        return mc_fail(MICA_EFORMAT, "has %zu fields, and the first line has %zu", found, n);
    if (r->misfit) return mc_fail(MICA_EFORMAT, "is not UTF-8");
    mc_buffer_clear(&r->record);
    bool done = mc_buffer_add_byte(&r->record, '{');
    for (size_t i = 0; i < n && done; i++)
        done = (!i || mc_buffer_add_byte(&r->record, ',')) &&
               mc_json_put_str(&r->record, MC_BUFFER_AT(&r->columns, mc_str)[i]) &&
               mc_buffer_add_byte(&r->record, ':') && mc_json_put_str(&r->record, field_at(r, i));
    return done && mc_buffer_add_byte(&r->record, '}') ? MICA_OK : mc_fail_nomem(r->lines.path);
}

static mica_status next_of_csv(mc_records *r, mc_str *record) {
    mc_str line;
    do {
        MC_TRY(mc_lines_next(&r->lines, &line));
        if (!line.ptr) return MICA_OK;
    } while (skip_blanks(line).len == 0);
    r->number = r->lines.number;
    if (r->columns.len == 0) {
        MC_TRY(read_columns(r, line));
        return next_of_csv(r, record);
    }
    MC_TRY(read_fields(r, line));
    MC_TRY(put_object(r));
    *record = (mc_str){r->record.data, r->record.len};
    return MICA_OK;
}

/* ---- all kinds ---- */

/* The next line that is not blank. */
static mica_status next_of_lines(mc_records *r, mc_str *record) {
    mc_str line;
    do {
        MC_TRY(mc_lines_next(&r->lines, &line));
        if (!line.ptr) return MICA_OK;
        r->number = r->lines.number;
    } while (skip_blanks(line).len == 0);
    *record = line;
    return MICA_OK;
}

mica_status mc_records_next(mc_records *r, mc_str *record) {
    *record = (mc_str){NULL, 0};
    r->misfit = false;
    if (r->kind == MC_RECORDS_LINES && !r->begun) MC_TRY(begin(r));
    switch (r->kind) {
    case MC_RECORDS_CSV:
        return next_of_csv(r, record);
    case MC_RECORDS_ARRAY:
        return next_element(r, record);
    case MC_RECORDS_LINES:
        break;
    }
    return next_of_lines(r, record);
}

mica_status mc_records_open(mc_records *r, const char *path) {
    static const char *const packed[] = {".gz", ".zst"};
    mc_str name = mc_str_of(path);
    *r = (mc_records){.kind = MC_RECORDS_LINES};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (mc_str_ends(name, mc_str_of(packed[i]))) name.len -= strlen(packed[i]);
    if (mc_str_ends(name, MC_STR(".csv")) || mc_str_ends(name, MC_STR(".CSV")))
        r->kind = MC_RECORDS_CSV;
    return mc_lines_open(&r->lines, path);
}

void mc_records_close(mc_records *r) {
    mc_buffer *const all[] = {&r->record, &r->columns, &r->ends, &r->values};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mc_buffer_deinit(all[i]);
    mc_arena_deinit(&r->arena);
    mc_lines_close(&r->lines);
    *r = (mc_records){.number = 0};
}

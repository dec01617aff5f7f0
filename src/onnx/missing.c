/* What mica lacks of a file: all of it, collected while the rest of the graph is read. */
#include "onnx/import.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ROWS = 1024, MAX_NAMES = 3, MAX_TEXT = 15000, MAX_NOTES = 1 << 13 };

/* One thing that is missing, and the nodes that need it. */
typedef struct row {
    const char *what;
    mc_onnx_help need;
    size_t nodes;
    const char *names[MAX_NAMES]; /* of the first ones */
} row;

void mc_onnx_set_missing_aside(mc_onnx_import *import, mc_onnx_missing *before) {
    *before = (mc_onnx_missing){import->missing, import->missed};
    import->missing = (mc_buffer){0};
    import->missed = 0;
}

mica_status mc_onnx_merge_missing(mc_onnx_import *import, mc_onnx_missing *before, bool add) {
    mc_buffer since = import->missing;
    const row *rows = MC_BUFFER_AT(&since, row);
    size_t n = add ? MC_BUFFER_COUNT(&since, row) : 0, missed = add ? import->missed : 0;
    mica_status status = MICA_OK;
    import->missing = before->rows;
    import->missed = before->missed;
    for (size_t i = 0; status == MICA_OK && i < n; i++)
        for (size_t k = 0; status == MICA_OK && k < rows[i].nodes && k < MAX_NAMES; k++)
            status = mc_onnx_miss(import, rows[i].names[k], rows[i].need, rows[i].what);
    import->missed = before->missed + missed;
    mc_buffer_deinit(&since);
    return status;
}

mica_status mc_onnx_note(mc_onnx_import *import, const char *format, ...) {
    char line[700];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (import->notes.len > MAX_NOTES) return MICA_OK;
    return mc_buffer_printf(&import->notes, "note %s\n", line) ? MICA_OK : mc_fail_nomem("a note");
}

mica_status mc_onnx_miss(mc_onnx_import *import, const char *name, mc_onnx_help need,
                         const char *what) {
    row *rows = MC_BUFFER_AT(&import->missing, row);
    size_t n = MC_BUFFER_COUNT(&import->missing, row), at = 0;
    const char *own = mc_arena_strndup(&import->arena, name, strlen(name));
    while (at < n && strcmp(rows[at].what, what) != 0)
        at++;
    if (!own) return mc_fail_nomem("what is missing");
    import->missed++;
    if (at == n) {
        row new = {.what = mc_arena_strndup(&import->arena, what, strlen(what)), .need = need};
        if (n == MAX_ROWS) return MICA_OK;
        if (!new.what || !mc_buffer_add(&import->missing, &new, sizeof new))
            return mc_fail_nomem("what is missing");
        rows = MC_BUFFER_AT(&import->missing, row);
    }
    if (rows[at].nodes < MAX_NAMES) rows[at].names[rows[at].nodes] = own;
    rows[at].nodes++;
    return MICA_OK;
}

static bool print_row(mc_buffer *text, const row *r) {
    bool ok = mc_buffer_printf(text, "%s (", r->what);
    for (size_t i = 0; ok && i < r->nodes && i < MAX_NAMES; i++)
        ok = mc_buffer_printf(text, "%s%.80s", i > 0 ? ", " : "", r->names[i]);
    if (ok && r->nodes > MAX_NAMES)
        ok = mc_buffer_printf(text, " and %zu more", r->nodes - MAX_NAMES);
    return ok && mc_buffer_add_text(text, ")");
}

bool mc_onnx_print_missing(const mc_onnx_import *import, const char *between, size_t max_bytes,
                           mc_buffer *text) {
    const row *rows = MC_BUFFER_AT(&import->missing, row);
    size_t n = MC_BUFFER_COUNT(&import->missing, row), begin = text->len;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && text->len - begin > max_bytes)
            return mc_buffer_printf(text, "%sand %zu more", between, n - i);
        if (i > 0 && !mc_buffer_add_text(text, between)) return false;
        if (!print_row(text, &rows[i])) return false;
    }
    return true;
}

bool mc_onnx_print_advice(const mc_onnx_import *import, const char *begin, const char *between,
                          mc_buffer *text) {
    static const char *const advice[MC_ONNX_NEEDS] = {
        [MC_ONNX_NEED_OP] = "for operators, export without them, or as functions of others",
        [MC_ONNX_NEED_VALUE] = "for values of a run, fix the inputs that they depend on",
        [MC_ONNX_NEED_LENGTH] = "for lengths, give a number to each name",
        [MC_ONNX_NEED_FORM] = "for forms of operators and dtypes, export another one",
    };
    const row *rows = MC_BUFFER_AT(&import->missing, row);
    size_t n = MC_BUFFER_COUNT(&import->missing, row);
    const char *before = begin;
    for (int need = 0; need < MC_ONNX_NEEDS; need++) {
        bool there = false;
        for (size_t i = 0; i < n; i++)
            there = there || rows[i].need == (mc_onnx_help)need;
        if (!there || !advice[need]) continue;
        if (!mc_buffer_printf(text, "%s%s", before, advice[need])) return false;
        before = between;
    }
    return true;
}

mica_status mc_onnx_fail_missing(const mc_onnx_import *import) {
    mc_buffer text = {0};
    const row *rows = MC_BUFFER_AT(&import->missing, row);
    size_t n = MC_BUFFER_COUNT(&import->missing, row);
    if (n == 0) return MICA_OK;
    bool lengths = true;
    for (size_t i = 0; i < n; i++)
        lengths = lengths && rows[i].need == MC_ONNX_NEED_LENGTH;
    bool ok =
        mc_buffer_printf(&text, "%zu of what it needs %s missing: ", n, n == 1 ? "is" : "are") &&
        mc_onnx_print_missing(import, "; ", MAX_TEXT, &text) &&
        mc_onnx_print_advice(import, ". What to do: ", "; ", &text) && mc_buffer_cstr(&text);
    mica_status status = ok ? mc_fail_text(lengths ? MICA_EINVAL : MICA_EUNSUPPORTED, text.data)
                            : mc_fail_nomem("what is missing");
    mc_buffer_deinit(&text);
    return status;
}

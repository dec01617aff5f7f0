/* How two programs differ, by their texts. */
#include <string.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/str.h"
#include "exec/program.h"

/* The first line of a text, with its end. */
static mc_str first_line(mc_str text) {
    const char *end = text.len > 0 ? memchr(text.ptr, '\n', text.len) : NULL;
    return (mc_str){text.ptr, end ? (size_t)(end - text.ptr) + 1 : text.len};
}

static mc_str last_line(mc_str text) {
    size_t at = text.len > 0 ? text.len - 1 : 0;
    while (at > 0 && text.ptr[at - 1] != '\n')
        at--;
    return (mc_str){text.ptr + at, text.len - at};
}

/* Takes equal lines off the beginnings and the ends. */
static void cut_equal_lines(mc_str *a, mc_str *b) {
    while (a->len > 0 && b->len > 0 && mc_str_eq(first_line(*a), first_line(*b))) {
        size_t n = first_line(*a).len;
        *a = (mc_str){a->ptr + n, a->len - n};
        *b = (mc_str){b->ptr + n, b->len - n};
    }
    while (a->len > 0 && b->len > 0 && mc_str_eq(last_line(*a), last_line(*b))) {
        size_t n = last_line(*a).len;
        a->len -= n;
        b->len -= n;
    }
}

static bool add_lines(mc_buffer *text, const char *mark, mc_str lines) {
    bool ok = true;
    while (ok && lines.len > 0) {
        mc_str line = first_line(lines);
        ok = mc_buffer_printf(text, "%s%.*s", mark, MC_STR_ARG(line));
        lines = (mc_str){lines.ptr + line.len, lines.len - line.len};
    }
    return ok;
}

mica_status mica_program_diff(const mica_program *a, const mica_program *b, char **text) {
    char *texts[2] = {NULL, NULL};
    mc_buffer buffer = {0};
    if (!a || !b || !text) return mc_fail(MICA_EINVAL, "program_diff: NULL");
    *text = NULL;
    mica_status status = mica_program_print(a, &texts[0]);
    if (status == MICA_OK) status = mica_program_print(b, &texts[1]);
    if (status == MICA_OK) {
        mc_str x = mc_str_of(texts[0]), y = mc_str_of(texts[1]);
        cut_equal_lines(&x, &y);
        if (!add_lines(&buffer, "- ", x) || !add_lines(&buffer, "+ ", y) ||
            !mc_buffer_cstr(&buffer))
            status = mc_fail_nomem("comparing programs");
    }
    mica_free(texts[0]);
    mica_free(texts[1]);
    if (status == MICA_OK)
        *text = mc_buffer_take(&buffer);
    else
        mc_buffer_deinit(&buffer);
    return status;
}

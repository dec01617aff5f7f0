#include "io/name_pattern.h"

#include "base/alloc.h"
#include "base/buffer.h"

#include <stdint.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Patterns and names come from files. */
enum {
    MAX_PATTERN = 1024, /* bytes */
    MAX_NAME = 1024,
    STEP_BYTES = 16, /* of a name, for which an item costs a step more */
    HEAP_KIB = 1024
};

struct mc_name_pattern {
    mc_str text; /* behind the struct */
    bool plain;  /* of literals and dots: there is no code */
    pcre2_general_context *memory;
    pcre2_code *code;
};

/* ---- plain patterns ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_plain(mc_str pattern) {
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.ptr[i];
        if (!is_word(c) && c != '-' && c != '.') return false;
    }
    return true;
}

/* A dot matches any character. */
static bool plain_matches(mc_str pattern, mc_str name) {
    if (name.len < pattern.len) return false;
    size_t skip = name.len - pattern.len;
    if (skip > 0 && name.ptr[skip - 1] != '.') return false;
    for (size_t i = 0; i < pattern.len; i++)
        if (pattern.ptr[i] != '.' && pattern.ptr[i] != name.ptr[skip + i]) return false;
    return true;
}

/* ---- compiling ---- */

static void *allocate(size_t bytes, void *data) {
    (void)data;
    return mc_alloc(bytes);
}

static void release(void *ptr, void *data) {
    (void)data;
    mc_free(ptr);
}

static mica_status fail_compile(const mc_name_pattern *p, int error) {
    char why[128] = "";
    if (error == PCRE2_ERROR_HEAP_FAILED) return mc_fail_nomem("a pattern of names");
    pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    return mc_fail(MICA_EFORMAT, "pattern \"%.*s\" is not a valid regular expression: %s",
                   MC_STR_ARG(p->text), why);
}

/* Steps are counted by callouts, of which a match makes one for each item that it tries. */
static mica_status compile_code(mc_name_pattern *p, const mc_buffer *whole, size_t *bytes) {
    static const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT | PCRE2_NEVER_BACKSLASH_C;
    int error = 0;
    PCRE2_SIZE at = 0;
    p->memory = pcre2_general_context_create(allocate, release, NULL);
    pcre2_compile_context *context = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (!context) return mc_fail_nomem("a pattern of names");
    p->code = pcre2_compile((PCRE2_SPTR)whole->data, whole->len, options, &error, &at, context);
    pcre2_compile_context_free(context);
    if (!p->code) return fail_compile(p, error);
    size_t size = SIZE_MAX;
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &size);
    if (size > *bytes)
        return mc_fail(MICA_EUNSUPPORTED, "pattern \"%.*s\": all patterns take more than %d bytes",
                       MC_STR_ARG(p->text), MC_NAME_BYTES);
    *bytes -= size;
    return MICA_OK;
}

static mica_status compile(mc_name_pattern *p, size_t *bytes) {
    mc_buffer whole = {0};
    bool done = mc_buffer_add_text(&whole, "(.*\\.)?(") &&
                mc_buffer_add(&whole, p->text.ptr, p->text.len) && mc_buffer_add_text(&whole, ")$");
    mica_status status =
        done ? compile_code(p, &whole, bytes) : mc_fail_nomem("a pattern of names");
    mc_buffer_deinit(&whole);
    return status;
}

mica_status mc_name_pattern_compile(mc_str pattern, size_t *bytes, mc_name_pattern **out) {
    bool plain = is_plain(pattern);
    *out = NULL;
    if (!plain && pattern.len > MAX_PATTERN)
        return mc_fail(MICA_EFORMAT, "pattern \"%.32s...\" is longer than %d bytes", pattern.ptr,
                       MAX_PATTERN);
    mc_name_pattern *p = mc_calloc(1, sizeof *p + pattern.len + 1);
    if (!p) return mc_fail_nomem("a pattern of names");
    p->text = (mc_str){memcpy(p + 1, pattern.ptr, pattern.len), pattern.len};
    p->plain = plain;
    mica_status status = plain ? MICA_OK : compile(p, bytes);
    if (status == MICA_OK)
        *out = p;
    else
        mc_name_pattern_free(p);
    return status;
}

void mc_name_pattern_free(mc_name_pattern *p) {
    if (!p) return;
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    mc_free(p);
}

/* ---- matching ---- */

/* What a callout stands for may read the whole name: one costs more with a longer name. */
static int count_step(pcre2_callout_block *block, void *steps) {
    uint32_t *left = steps, cost = 1 + (uint32_t)block->subject_length / STEP_BYTES;
    bool enough = *left >= cost;
    *left = enough ? *left - cost : 0;
    return enough ? 0 : PCRE2_ERROR_MATCHLIMIT;
}

static int match(const mc_name_pattern *p, mc_str name, uint32_t *steps) {
    int rc = PCRE2_ERROR_NOMEMORY;
    pcre2_match_data *data = pcre2_match_data_create(1, p->memory);
    pcre2_match_context *context = pcre2_match_context_create(p->memory);
    if (data && context) {
        pcre2_set_callout(context, count_step, steps);
        pcre2_set_match_limit(context, MC_NAME_STEPS);
        pcre2_set_heap_limit(context, HEAP_KIB);
        rc = pcre2_match(p->code, (PCRE2_SPTR)name.ptr, name.len, 0, 0, data, context);
    }
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    return rc;
}

static mica_status fail_match(const mc_name_pattern *p, int error) {
    char why[128] = "";
    if (error == PCRE2_ERROR_NOMEMORY) return mc_fail_nomem("matching a pattern of names");
    pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    return mc_fail(MICA_EUNSUPPORTED, "matching pattern \"%.*s\" takes too much work: %s",
                   MC_STR_ARG(p->text), why);
}

mica_status mc_name_matches(const mc_name_pattern *p, const char *name, uint32_t *steps,
                            bool *matches) {
    const char *end = memchr(name, 0, MAX_NAME + 1);
    *matches = false;
    if (!end)
        return mc_fail(MICA_EUNSUPPORTED, "the name %.32s... is longer than %d bytes", name,
                       MAX_NAME);
    if (*steps == 0) return fail_match(p, PCRE2_ERROR_MATCHLIMIT);
    --*steps;
    mc_str text = {name, (size_t)(end - name)};
    *matches = p->plain && plain_matches(p->text, text);
    if (p->plain) return MICA_OK;
    int rc = match(p, text, steps);
    *matches = rc >= 0;
    return rc >= 0 || rc == PCRE2_ERROR_NOMATCH ? MICA_OK : fail_match(p, rc);
}

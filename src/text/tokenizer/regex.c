#include "text/tokenizer/regex.h"

#include "base/alloc.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Work that one match may take: as many steps as Oniguruma allows. */
enum { MATCH_LIMIT = 10000000, HEAP_LIMIT_KIB = 64 * 1024, PATTERN_LIMIT = 1 << 16 };

struct mc_regex {
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_general_context *memory;
};

static void *allocate(size_t bytes, void *data) {
    (void)data;
    return mc_alloc(bytes);
}

static void release(void *ptr, void *data) {
    (void)data;
    mc_free(ptr);
}

static mica_status compile_failed(int error, size_t at, mc_str pattern) {
    char why[128] = "";
    if (error == PCRE2_ERROR_HEAP_FAILED) return mc_fail_nomem("pattern");
    pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    return mc_fail(MICA_EFORMAT, "the pattern '%.*s' cannot be compiled: %s (near byte %zu)",
                   MC_STR_ARG(pattern), why, at);
}

/* As Ruby has it, ^ and $ are at lines, which end in LF. */
static mica_status compile(mc_regex *regex, mc_str pattern, mc_str translated) {
    static const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(regex->memory);
    if (!context) return mc_fail_nomem("pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, PATTERN_LIMIT);
    regex->code =
        pcre2_compile((PCRE2_SPTR)translated.ptr, translated.len, options, &error, &at, context);
    pcre2_compile_context_free(context);
    if (!regex->code) return compile_failed(error, at, pattern);
    pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* where there is none, it is interpreted */
    regex->limits = pcre2_match_context_create(regex->memory);
    if (!regex->limits) return mc_fail_nomem("pattern");
    pcre2_set_match_limit(regex->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(regex->limits, HEAP_LIMIT_KIB);
    return MICA_OK;
}

mica_status mc_regex_compile(mc_str pattern, mc_regex **out) {
    mc_buffer translated = {0};
    mc_regex *regex = mc_calloc(1, sizeof *regex);
    if (!regex) return mc_fail_nomem("pattern");
    mica_status status = mc_regex_translate(pattern, &translated);
    if (status == MICA_OK) {
        regex->memory = pcre2_general_context_create(allocate, release, NULL);
        status = regex->memory ? MICA_OK : mc_fail_nomem("pattern");
    }
    if (status == MICA_OK) {
        mc_str text = {translated.len ? translated.data : "", translated.len};
        status = compile(regex, pattern, text);
    }
    mc_buffer_deinit(&translated);
    if (status == MICA_OK) {
        *out = regex;
    } else {
        mc_regex_free(regex);
    }
    return status;
}

void mc_regex_free(mc_regex *regex) {
    if (!regex) return;
    pcre2_code_free(regex->code);
    pcre2_match_context_free(regex->limits);
    pcre2_general_context_free(regex->memory);
    mc_free(regex);
}

static mica_status match_failed(int error) {
    char why[128] = "";
    if (error == PCRE2_ERROR_NOMEMORY) return mc_fail_nomem("matching a pattern");
    pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    return mc_fail(MICA_EUNSUPPORTED,
                   "matching a pattern of the tokenizer takes too much work on this text: %s", why);
}

mica_status mc_regex_find(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t from,
                          mc_span *hit, bool *found) {
    if (!room->match) room->match = pcre2_match_data_create(1, regex->memory);
    if (!room->match) return mc_fail_nomem("matching a pattern");
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    int rc = pcre2_match(regex->code, subject, text.len, from, PCRE2_NO_UTF_CHECK, room->match,
                         regex->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) { /* the interpreter has more room */
        rc = pcre2_match(regex->code, subject, text.len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         room->match, regex->limits);
    }
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return MICA_OK;
    if (rc < 0) return match_failed(rc);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(room->match);
    *hit = (mc_span){ends[0], ends[1]};
    /* \K in a lookaround can put the start anywhere. */
    if (hit->start < from || hit->end < hit->start) {
        return mc_fail(MICA_EUNSUPPORTED,
                       "a pattern of the tokenizer matches before its beginning");
    }
    return MICA_OK;
}

void mc_regex_room_deinit(mc_regex_room *room) {
    pcre2_match_data_free(room->match);
    room->match = NULL;
}

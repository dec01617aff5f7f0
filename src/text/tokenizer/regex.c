#include "text/tokenizer/regex.h"

#include "base/alloc.h"
#include "text/find.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Limits of an attempt whose steps are not counted: it sees NEAR bytes from its start, in a second
 * attempt FAR bytes, which are charged. */
enum { NEAR = 256, FAR = 4096, UNCOUNTED_STEPS = 256 };
/* Limits of the counted steps of all attempts in a text. A step takes about 10 ns. */
enum { TEXT_STEPS = 20000000, STEPS_PER_BYTE = 256 };
enum { MATCH_LIMIT = 10000000, HEAP_LIMIT_KIB = 32 * 1024, PATTERN_LIMIT = MC_REGEX_MAX_LEN };
enum { JIT_LIMIT = 16 * 1024 }; /* bytes of a pattern; its machine code is forty times larger */

struct mc_regex {
    pcre2_code *code;
    bool compiled;               /* to machine code */
    pcre2_match_context *limits; /* for attempts whose steps are not counted */
    pcre2_code *counted;         /* the same pattern with callouts */
    pcre2_general_context *memory;
    size_t reach;    /* number of characters that a step may read without moving on */
    bool references; /* a step may also read what a group matched */
    bool whole;      /* the start of a search matters: it cannot be done in parts */
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

/* As in Ruby, ^ and $ match at lines, which end in LF. */
static mica_status compile_with(mc_regex *regex, mc_str pattern, mc_str translated, uint32_t also,
                                pcre2_code **code) {
    static const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(regex->memory);
    if (!context) return mc_fail_nomem("pattern");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, PATTERN_LIMIT);
    *code = pcre2_compile((PCRE2_SPTR)translated.ptr, translated.len, options | also, &error, &at,
                          context);
    pcre2_compile_context_free(context);
    return *code ? MICA_OK : compile_failed(error, at, pattern);
}

/* The largest n of the pattern's intervals {n}, and of texts that look like one. */
static size_t find_reach(mc_str pattern) {
    size_t largest = 0;
    for (size_t i = 0; i < pattern.len; i++) {
        bool code = i >= 2 && pattern.ptr[i - 2] == '\\'; /* of \x{123} */
        size_t n = 0;
        if (pattern.ptr[i] != '{' || code) continue;
        for (i++; i < pattern.len && pattern.ptr[i] >= ',' && pattern.ptr[i] <= '9'; i++) {
            n = pattern.ptr[i] < '0' ? 0 : n * 10 + (size_t)(pattern.ptr[i] - '0');
            if (n > PATTERN_LIMIT) n = PATTERN_LIMIT;
            if (n > largest) largest = n;
        }
    }
    return largest;
}

static mica_status compile(mc_regex *regex, mc_str pattern, mc_str translated) {
    uint32_t references = 0;
    MC_TRY(compile_with(regex, pattern, translated, 0, &regex->code));
    MC_TRY(compile_with(regex, pattern, translated, PCRE2_AUTO_CALLOUT, &regex->counted));
    regex->compiled =
        translated.len <= JIT_LIMIT &&
        pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
    regex->limits = pcre2_match_context_create(regex->memory);
    if (!regex->limits) return mc_fail_nomem("pattern");
    pcre2_set_match_limit(regex->limits, UNCOUNTED_STEPS);
    pcre2_set_heap_limit(regex->limits, HEAP_LIMIT_KIB);
    pcre2_pattern_info(regex->code, PCRE2_INFO_BACKREFMAX, &references);
    regex->references = references > 0;
    regex->reach = find_reach(pattern);
    regex->whole = mc_find(translated, MC_STR("\\G"), 0) < translated.len;
    return MICA_OK;
}

mica_status mc_regex_compile(mc_str pattern, mc_regex **out) {
    mc_buffer translated = {0};
    mc_regex *regex = mc_calloc(1, sizeof *regex);
    if (!regex) return mc_fail_nomem("pattern");
    mica_status status = pattern.len > PATTERN_LIMIT
                             ? mc_fail(MICA_EFORMAT, "a pattern has %zu bytes, the limit is %d",
                                       pattern.len, PATTERN_LIMIT)
                             : mc_regex_translate(pattern, &translated);
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
    pcre2_code_free(regex->counted);
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

void mc_regex_begin(mc_regex_room *room, size_t text_len) {
    room->steps = 0;
    room->max_steps = TEXT_STEPS + (uint64_t)text_len * STEPS_PER_BYTE;
}

/* Counts steps; false: too many. */
static bool count_steps(mc_regex_room *room, uint64_t steps) {
    room->steps += steps;
    return room->steps <= (room->max_steps ? room->max_steps : TEXT_STEPS);
}

/* The number of bytes that the groups have matched. */
static size_t group_bytes(const pcre2_callout_block *block) {
    size_t bytes = 0;
    for (uint32_t i = 1; i < block->capture_top; i++) {
        size_t start = block->offset_vector[2 * i], end = block->offset_vector[2 * i + 1];
        if (start != PCRE2_UNSET && end != PCRE2_UNSET && end > start) bytes += end - start;
    }
    return bytes + block->capture_top;
}

/* Counts a step for each callout, and for each byte that was read since the last callout or may be
 * read before the next. */
static int called_out(pcre2_callout_block *block, void *arg) {
    mc_regex_room *room = arg;
    size_t at = block->current_position;
    size_t distance = at > room->last ? at - room->last : room->last - at;
    size_t ahead = room->reach + (room->references ? group_bytes(block) : 0);
    room->last = at;
    return count_steps(room, 1 + distance + ahead) ? 0 : PCRE2_ERROR_MATCHLIMIT;
}

static int match_counted(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t from) {
    if (!room->counted) {
        pcre2_match_context *context = pcre2_match_context_create(regex->memory);
        if (!context) return PCRE2_ERROR_NOMEMORY;
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, HEAP_LIMIT_KIB);
        pcre2_set_callout(context, called_out, room);
        room->counted = context;
    }
    room->last = from;
    room->reach = regex->reach;
    room->references = regex->references;
    return pcre2_match(regex->counted, (PCRE2_SPTR)text.ptr, text.len, from, PCRE2_NO_UTF_CHECK,
                       room->match, room->counted);
}

/* The end of the window of about n bytes from `from`, at the end of a character. */
static size_t window_end(mc_str text, size_t from, size_t n) {
    if (n >= text.len - from) return text.len;
    size_t end = from + n;
    while (((unsigned char)text.ptr[end] & 0xC0) == 0x80)
        end--;
    return end;
}

static int match_in(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t end,
                    size_t from, uint32_t part) {
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    if (regex->compiled)
        return pcre2_jit_match(regex->code, subject, end, from, part, room->match, regex->limits);
    return pcre2_match(regex->code, subject, end, from, PCRE2_NO_UTF_CHECK | part, room->match,
                       regex->limits);
}

/* An attempt that needs to see more is a partial match. It is repeated from its own start: the
 * result does not depend on where the search began. */
static int match_near(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t from) {
    for (size_t see = NEAR;;) {
        size_t end = window_end(text, from, see);
        uint32_t part = end < text.len ? PCRE2_PARTIAL_HARD : 0;
        int rc = match_in(regex, room, text, end, from, part);
        size_t start = rc == PCRE2_ERROR_PARTIAL ? pcre2_get_ovector_pointer(room->match)[0] : from;
        if (rc == PCRE2_ERROR_NOMATCH && part) {
            from = end;
        } else if (start > from) {
            from = start;
        } else if (rc == PCRE2_ERROR_PARTIAL && see == NEAR && count_steps(room, FAR)) {
            see = FAR;
            continue;
        } else if (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_MATCHLIMIT ||
                   rc == PCRE2_ERROR_JIT_STACKLIMIT) {
            return match_counted(regex, room, text, from);
        } else {
            return rc;
        }
        see = NEAR;
    }
}

mica_status mc_regex_find(const mc_regex *regex, mc_regex_room *room, mc_str text, size_t from,
                          mc_span *hit, bool *found) {
    if (!room->match) room->match = pcre2_match_data_create(1, regex->memory);
    if (!room->match) return mc_fail_nomem("matching a pattern");
    int rc =
        regex->whole ? match_counted(regex, room, text, from) : match_near(regex, room, text, from);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) return MICA_OK;
    if (rc < 0) return match_failed(rc);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(room->match);
    *hit = (mc_span){ends[0], ends[1]};
    /* \K in a lookaround can move the start of a match anywhere. */
    if (hit->start < from || hit->end < hit->start) {
        return mc_fail(MICA_EUNSUPPORTED,
                       "a pattern of the tokenizer matches before its beginning");
    }
    return MICA_OK;
}

void mc_regex_room_deinit(mc_regex_room *room) {
    pcre2_match_data_free(room->match);
    pcre2_match_context_free(room->counted);
    *room = (mc_regex_room){0};
}

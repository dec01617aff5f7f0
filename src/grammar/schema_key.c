/* Keys of objects other than some. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/grammar_chars.h"
#include "grammar/schema_parts.h"

#include <stdlib.h>
#include <string.h>

static int32_t byte(mc_schema *s, int c, int32_t next) {
    return mc_build_range(s->b, c, c, next);
}

static int32_t other_chars(mc_schema *s) {
    static const mc_char_range all = {0, MC_CHAR_MAX};
    if (s->other_chars == MC_DEAD) {
        int32_t loop = mc_build_open(s->b);
        mc_build_plain(s->b, loop);
        mc_build_close(s->b, loop, mc_build_class(s->b, MC_CHARS_JSON, &all, 1, loop),
                       byte(s, '"', MC_RETURN));
        s->other_chars = loop;
    }
    return s->other_chars;
}

static int by_text(const void *a, const void *b) {
    const mc_str *one = a, *other = b;
    size_t n = one->len < other->len ? one->len : other->len;
    int order = n ? memcmp(one->ptr, other->ptr, n) : 0;
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

/* A key of which a beginning was read: characters that lead away from the names, of which the
 * sorted `next` ones do not, or its end. */
static int32_t away(mc_schema *s, mc_char_range *next, size_t count, bool may_end) {
    mc_char_range *others = mc_array_alloc(count + 1, sizeof *others);
    if (!others) {
        mc_builder_fail(s->b, mc_fail_nomem("a schema"));
        return MC_DEAD;
    }
    count = mc_char_ranges_join(next, count);
    count = mc_char_ranges_invert(next, count, MC_CHAR_MAX, others);
    int32_t all = mc_build_class(s->b, MC_CHARS_JSON, others, count, other_chars(s));
    mc_free(others);
    return mc_build_split(s->b, all, may_end ? byte(s, '"', MC_RETURN) : MC_DEAD);
}

static int32_t key_except(mc_schema *s, const mc_str *names, size_t count, size_t at);

/* A key of which the first `at` bytes of all names were read, and the names differ behind them. */
static int32_t key_fork(mc_schema *s, const mc_str *names, size_t count, size_t at) {
    mc_buffer chars = {0};
    int32_t all = MC_DEAD;
    size_t i = 0;
    while (i < count && names[i].len == at) /* the beginning is a name */
        i++;
    bool may_end = i == 0;
    for (size_t end; i < count; i = end) {
        mc_char_range range;
        size_t n = mc_utf8_decode(names[i].ptr + at, names[i].len - at, &range.low);
        range.high = range.low;
        end = i + 1;
        while (end < count && names[end].len >= at + n &&
               memcmp(names[end].ptr + at, names[i].ptr + at, n) == 0)
            end++;
        int32_t on = key_except(s, names + i, end - i, at + n);
        all = mc_build_split(s->b, mc_build_class(s->b, MC_CHARS_JSON, &range, 1, on), all);
        if (!mc_buffer_add(&chars, &range, sizeof range))
            mc_builder_fail(s->b, mc_fail_nomem("a schema"));
    }
    if (s->b->status == MICA_OK)
        all = mc_build_split(s->b,
                             away(s, MC_BUFFER_AT(&chars, mc_char_range),
                                  MC_BUFFER_COUNT(&chars, mc_char_range), may_end),
                             all);
    mc_buffer_deinit(&chars);
    return all;
}

/* A key that is none of the sorted names, of which the first `at` bytes were read, and its quote.
 * Recursion is as deep as names begin with names. */
static int32_t key_except(mc_schema *s, const mc_str *names, size_t count, size_t at) {
    size_t to = at;
    uint32_t c;
    while (to < names[0].len && to < names[count - 1].len) { /* whole characters in common */
        size_t n = mc_utf8_decode(names[0].ptr + to, names[0].len - to, &c);
        if (names[count - 1].len < to + n ||
            memcmp(names[0].ptr + to, names[count - 1].ptr + to, n) != 0)
            break;
        to += n;
    }
    int32_t all = key_fork(s, names, count, to);
    while (to > at && s->b->status == MICA_OK) {
        do
            to--;
        while (((uint8_t)names[0].ptr[to] & 0xc0) == 0x80);
        mc_char_range range;
        mc_utf8_decode(names[0].ptr + to, names[0].len - to, &range.low);
        range.high = range.low;
        all = mc_build_class(s->b, MC_CHARS_JSON, &range, 1, all);
        all = mc_build_split(s->b, away(s, &range, 1, true), all);
    }
    return all;
}

int32_t mc_build_other_key(mc_schema *s, mc_str *names, size_t count) {
    if (!count) return other_chars(s);
    qsort(names, count, sizeof *names, by_text);
    return key_except(s, names, count, 0);
}

#include "session/stop_text.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <string.h>

static mica_status init_string(mc_stop_string *s, const char *text, size_t number) {
    if (!text) return mc_fail(MICA_EINVAL, "stop string %zu is NULL", number);
    size_t len = strlen(text);
    if (!len) return mc_fail(MICA_EINVAL, "stop string %zu is empty", number);
    if (len >= UINT32_MAX || !mc_utf8_valid(text, len))
        return mc_fail(MICA_EINVAL, "stop string %zu is %s", number,
                       len >= UINT32_MAX ? "too long" : "not UTF-8");
    s->len = len;
    s->text = mc_strndup(text, len);
    s->back = mc_array_alloc(len, sizeof *s->back);
    if (!s->text || !s->back) return mc_fail_nomem("stop strings");
    s->back[0] = 0;
    for (size_t i = 1, m = 0; i < len; i++) {
        while (m && text[m] != text[i])
            m = s->back[m - 1];
        if (text[m] == text[i]) m++;
        s->back[i] = (uint32_t)m;
    }
    return MICA_OK;
}

mica_status mc_stop_text_init(mc_stop_text *stops, const char *const *strings, size_t count) {
    *stops = (mc_stop_text){0};
    if (!count) return MICA_OK;
    if (!strings) return mc_fail(MICA_EINVAL, "stop_strings is NULL, stop_string_count %zu", count);
    stops->strings = mc_calloc(count, sizeof *stops->strings);
    if (!stops->strings) return mc_fail_nomem("stop strings");
    stops->count = count;
    for (size_t i = 0; i < count; i++)
        MC_TRY(init_string(&stops->strings[i], strings[i], i));
    return MICA_OK;
}

void mc_stop_text_deinit(mc_stop_text *stops) {
    for (size_t i = 0; i < stops->count; i++) {
        mc_free(stops->strings[i].text);
        mc_free(stops->strings[i].back);
    }
    mc_free(stops->strings);
    mc_buffer_deinit(&stops->held);
    mc_buffer_deinit(&stops->out);
    *stops = (mc_stop_text){0};
}

/* True if the string is complete with this byte. */
static bool step(mc_stop_string *s, char byte) {
    /* a complete string that did not count */
    if (s->matched == s->len) s->matched = s->back[s->len - 1];
    while (s->matched && s->text[s->matched] != byte)
        s->matched = s->back[s->matched - 1];
    if (s->text[s->matched] == byte) s->matched++;
    return s->matched == s->len;
}

/* The length of the longest string that is complete with this byte; 0: none. */
static size_t step_all(mc_stop_text *stops, char byte) {
    size_t longest = 0;
    for (size_t i = 0; i < stops->count; i++)
        if (step(&stops->strings[i], byte) && stops->strings[i].len > longest)
            longest = stops->strings[i].len;
    return longest;
}

/* How many of the last bytes may be the beginning of a string. */
static size_t undecided(const mc_stop_text *stops) {
    size_t max = 0;
    for (size_t i = 0; i < stops->count; i++) {
        const mc_stop_string *s = &stops->strings[i];
        size_t matched = s->matched == s->len ? s->back[s->len - 1] : s->matched;
        if (matched > max) max = matched;
    }
    return max;
}

mica_status mc_stop_text_push(mc_stop_text *stops, const char *text, size_t len, mc_stop_mode mode,
                              const char **out, size_t *out_len, bool *found) {
    size_t at = stops->held.len, decided = SIZE_MAX;
    *found = false;
    if (!mc_buffer_add(&stops->held, text, len)) return mc_fail_nomem("text");
    for (; at < stops->held.len && !*found; at++) {
        size_t complete = step_all(stops, stops->held.data[at]);
        if (!complete || mode == MC_STOPS_IGNORED) continue;
        *found = true;
        decided = at + 1 - complete;
    }
    if (!*found) decided = stops->held.len - (mode == MC_STOPS_LAST ? 0 : undecided(stops));
    mc_buffer_clear(&stops->out);
    if (!mc_buffer_add(&stops->out, stops->held.data, decided)) return mc_fail_nomem("text");
    *out = mc_buffer_cstr(&stops->out);
    if (!*out) return mc_fail_nomem("text");
    *out_len = decided;
    stops->held.len -= decided;
    if (stops->held.len) memmove(stops->held.data, stops->held.data + decided, stops->held.len);
    return MICA_OK;
}

mica_status mc_stop_text_break(mc_stop_text *stops, const char **out, size_t *out_len) {
    if (!mc_buffer_add(&stops->out, stops->held.data, stops->held.len) ||
        !mc_buffer_cstr(&stops->out))
        return mc_fail_nomem("text");
    mc_buffer_clear(&stops->held);
    for (size_t i = 0; i < stops->count; i++)
        stops->strings[i].matched = 0;
    *out = stops->out.data;
    *out_len = stops->out.len;
    return MICA_OK;
}

const char *mc_stop_text_found(const mc_stop_text *stops) {
    const mc_stop_string *longest = NULL;
    for (size_t i = 0; i < stops->count; i++) {
        const mc_stop_string *s = &stops->strings[i];
        if (s->matched == s->len && (!longest || s->len > longest->len)) longest = s;
    }
    return longest ? longest->text : NULL;
}

#include "grammar/grammar_pattern.h"

#include <string.h>

/* The end of a group that begins at `at`, behind its parenthesis; 0: it has none. */
static size_t group_end(mc_str text, size_t at) {
    int depth = 0;
    bool in_class = false;
    for (size_t i = at; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '\\') {
            i++;
        } else if (in_class) {
            in_class = c != ']';
        } else if (c == '[') {
            in_class = true;
        } else if (c == '(') {
            depth++;
        } else if (c == ')' && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* Whether a pattern has alternatives, outside of groups. */
static bool has_alternatives(mc_str text) {
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        size_t end = c == '(' ? group_end(text, i) : 0;
        if (c == '|') return true;
        if (c == '\\') i++;
        if (c == '[')
            while (i + 1 < text.len && text.ptr[i] != ']')
                i += text.ptr[i] == '\\' ? 2 : 1;
        if (end) i = end - 1;
    }
    return false;
}

/* Takes a look-ahead from a pattern's beginning. */
static bool take_look_ahead(mc_str *rest, mc_str *inner, bool *negated) {
    bool some = mc_str_starts(*rest, MC_STR("(?="));
    *negated = mc_str_starts(*rest, MC_STR("(?!"));
    size_t end = some || *negated ? group_end(*rest, 0) : 0;
    if (!end) return false;
    *inner = (mc_str){rest->ptr + 3, end - 4};
    rest->ptr += end;
    rest->len -= end;
    return true;
}

static bool add(mc_builder *parts, mc_buffer *languages, int32_t start, bool negated) {
    const mc_language new = {start, negated};
    if (parts->status == MICA_OK && !mc_buffer_add(languages, &new, sizeof new))
        mc_builder_fail(parts, mc_fail_nomem("a pattern"));
    return parts->status == MICA_OK;
}

bool mc_pattern_languages(mc_builder *parts, mc_char_form form, mc_str pattern, bool wide,
                          mc_buffer *languages) {
    mc_str rest = pattern, inner;
    bool negated, anchored = mc_str_starts(pattern, MC_STR("^(?")) && !has_alternatives(pattern);
    if (anchored) {
        rest.ptr++;
        rest.len--;
    }
    while (anchored && take_look_ahead(&rest, &inner, &negated)) {
        unsigned how = MC_REGEX_BEGINNING | (negated != wide ? MC_REGEX_WIDE : 0u);
        int32_t start = mc_build_regex(parts, form, inner, how, MC_RETURN);
        if (!add(parts, languages, start, negated)) return false;
    }
    unsigned how = anchored ? MC_REGEX_BEGINNING : MC_REGEX_ANYWHERE;
    int32_t start = mc_build_regex(parts, form, rest, how | (wide ? MC_REGEX_WIDE : 0u), MC_RETURN);
    return add(parts, languages, start, false);
}

int32_t mc_build_pattern(mc_builder *b, mc_char_form form, mc_str pattern, bool wide,
                         int32_t next) {
    mc_builder parts;
    mc_buffer languages = {0};
    int32_t start = MC_DEAD;
    if (!mc_str_starts(pattern, MC_STR("^(?=")) && !mc_str_starts(pattern, MC_STR("^(?!")))
        return mc_build_regex(b, form, pattern, MC_REGEX_ANYWHERE | (wide ? MC_REGEX_WIDE : 0u),
                              next);
    mc_builder_init(&parts);
    if (mc_pattern_languages(&parts, form, pattern, wide, &languages))
        start = mc_build_product(b, &parts, MC_BUFFER_AT(&languages, mc_language),
                                 MC_BUFFER_COUNT(&languages, mc_language), next);
    else
        mc_builder_fail(b, mc_fail(parts.status, "%s", parts.error));
    mc_buffer_deinit(&languages);
    mc_builder_deinit(&parts);
    return start;
}

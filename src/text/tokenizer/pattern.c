#include "text/tokenizer/pattern.h"

#include "text/find.h"
#include "text/unicode.h"

mica_status mc_matches_next(mc_matches *m, mc_span *hit, bool *found) {
    *found = false;
    if (!m->pattern->regex) {
        size_t at = mc_find(m->text, m->pattern->text, m->from);
        if (at == m->text.len) return MICA_OK;
        *hit = (mc_span){at, at + m->pattern->text.len};
        m->from = hit->end;
        *found = true;
        return MICA_OK;
    }
    while (m->from <= m->text.len) {
        MC_TRY(mc_regex_find(m->pattern->regex, m->room, m->text, m->from, hit, found));
        if (!*found) return MICA_OK;
        if (hit->end > hit->start || !m->any || hit->end != m->last_end) {
            m->any = true;
            m->from = m->last_end = hit->end;
            return MICA_OK;
        }
        uint32_t c;
        *found = false;
        m->from += m->from < m->text.len ? mc_next_char(m->text.ptr + m->from, &c) : 1;
    }
    return MICA_OK;
}

/* Adds the text before a match, and the match's replacement. */
static mica_status replace_one(mc_work *work, mc_str before, size_t match, mc_str content,
                               mc_buffer *out) {
    if (content.len > match) MC_TRY(mc_work_add(work, content.len - match));
    bool ok =
        mc_buffer_add(out, before.ptr, before.len) && mc_buffer_add(out, content.ptr, content.len);
    return ok ? MICA_OK : mc_fail_nomem("text");
}

static mica_status replace_plain(const mc_pattern *pattern, mc_work *work, mc_str text,
                                 mc_str content, mc_buffer *out, size_t *done) {
    size_t hit;
    while ((hit = mc_find(text, pattern->text, *done)) < text.len) {
        mc_str before = {text.ptr + *done, hit - *done};
        MC_TRY(replace_one(work, before, pattern->text.len, content, out));
        *done = hit + pattern->text.len;
    }
    return MICA_OK;
}

static mica_status replace_matches(const mc_pattern *pattern, mc_work *work, mc_str text,
                                   mc_str content, mc_buffer *out, size_t *done) {
    mc_matches m = {.pattern = pattern, .room = &work->regex, .text = text};
    for (bool found = text.len > 0; found;) {
        mc_span hit = {0};
        MC_TRY(mc_matches_next(&m, &hit, &found));
        if (!found) break;
        mc_str before = {text.ptr + *done, hit.start - *done};
        MC_TRY(replace_one(work, before, hit.end - hit.start, content, out));
        *done = hit.end;
    }
    return MICA_OK;
}

mica_status mc_pattern_replace(const mc_pattern *pattern, mc_work *work, mc_str text,
                               mc_str content, mc_buffer *out) {
    size_t done = 0;
    MC_TRY(pattern->regex ? replace_matches(pattern, work, text, content, out, &done)
                          : replace_plain(pattern, work, text, content, out, &done));
    return mc_buffer_add(out, text.ptr + done, text.len - done) ? MICA_OK : mc_fail_nomem("text");
}

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

mica_status mc_pattern_replace(const mc_pattern *pattern, mc_regex_room *room, mc_str text,
                               mc_str content, mc_buffer *out) {
    if (!pattern->regex) {
        return mc_replace(text, pattern->text, content, out) ? MICA_OK : mc_fail_nomem("text");
    }
    mc_matches m = {.pattern = pattern, .room = room, .text = text};
    mc_span hit;
    size_t done = 0;
    for (bool found = text.len > 0; found;) {
        MC_TRY(mc_matches_next(&m, &hit, &found));
        size_t end = found ? hit.start : text.len;
        if (!mc_buffer_add(out, text.ptr + done, end - done) ||
            (found && !mc_buffer_add(out, content.ptr, content.len))) {
            return mc_fail_nomem("text");
        }
        if (found) done = hit.end;
    }
    return MICA_OK;
}

/* Places within a schema: JSON pointers, "$ref" and "$anchor". */
#include "grammar/schema_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- segments of pointers ---- */

static mica_status put_segment(mc_buffer *pointer, mc_str segment) {
    bool done = mc_buffer_add_byte(pointer, '/');
    for (size_t i = 0; done && i < segment.len; i++) {
        char c = segment.ptr[i];
        if (c == '~' || c == '/')
            done = mc_buffer_add_text(pointer, c == '~' ? "~0" : "~1");
        else
            done = mc_buffer_add_byte(pointer, c);
    }
    return done ? MICA_OK : mc_fail_nomem("a schema");
}

static int hex(char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

/* Takes the next segment of a reference, decoded. false: it is ill-formed, or no memory. */
static bool take_segment(mc_str *rest, mc_buffer *segment) {
    mc_buffer_clear(segment);
    while (rest->len && rest->ptr[0] != '/') {
        char c = rest->ptr[0];
        size_t n = 1;
        if (c == '%' && rest->len > 2 && hex(rest->ptr[1]) >= 0 && hex(rest->ptr[2]) >= 0) {
            c = (char)(hex(rest->ptr[1]) * 16 + hex(rest->ptr[2]));
            n = 3;
        }
        rest->ptr += n;
        rest->len -= n;
        if (c == '~') {
            if (!rest->len || (rest->ptr[0] != '0' && rest->ptr[0] != '1')) return false;
            c = rest->ptr[0] == '0' ? '~' : '/';
            rest->ptr++;
            rest->len--;
        }
        if (!mc_buffer_add_byte(segment, c)) return false;
    }
    return mc_buffer_cstr(segment) != NULL;
}

/* The member or element of a value. */
static mc_json child(mc_schema *s, mc_json v, mc_str segment) {
    const mc_json none = {0};
    if (!mc_schema_work(s, mc_json_count(v) / 8)) return none;
    if (mc_json_get_type(v) == MC_JSON_OBJECT) {
        for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);)
            if (mc_str_eq(it.key, segment)) return it.value;
        return none;
    }
    size_t index = 0;
    if (mc_json_get_type(v) != MC_JSON_ARRAY || !segment.len || segment.len > 9) return none;
    for (size_t i = 0; i < segment.len; i++) {
        if (segment.ptr[i] < '0' || segment.ptr[i] > '9') return none;
        index = index * 10 + (size_t)(segment.ptr[i] - '0');
    }
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it);)
        if (index-- == 0) return it.value;
    return none;
}

const char *mc_schema_place(mc_schema *s, const char *pointer, const char *where, mc_str key) {
    mc_buffer text = {0};
    const char *place = NULL;
    if (!mc_schema_work(s, 4 + strlen(pointer) / 8)) return NULL;
    if (mc_buffer_add_text(&text, pointer) && put_segment(&text, mc_str_of(where)) == MICA_OK &&
        (!key.ptr || put_segment(&text, key) == MICA_OK))
        place = mc_arena_strndup(&s->arena, text.data, text.len);
    mc_buffer_deinit(&text);
    if (!place) mc_schema_nomem(s);
    return place;
}

/* ---- references ---- */

/* Whether a schema below the root is a resource of its own: references within are not to this
 * one. */
static bool is_resource(const mc_schema *s, mc_json v, const char *at) {
    mc_str text;
    return strcmp(at, s->name) != 0 && mc_json_get_str(mc_json_find(v, "$id"), &text);
}

/* Follows the path of a reference, behind its #, within the resource. *pointer receives where it
 * leads. */
static mc_json follow_path(mc_schema *s, mc_str rest, mc_buffer *pointer) {
    const mc_json none = {0};
    mc_buffer segment = {0};
    mc_json at = s->root;
    bool good = mc_buffer_add_text(pointer, s->name);
    while (good && rest.len) {
        good = rest.ptr[0] == '/';
        rest.ptr++;
        rest.len--;
        good = good && take_segment(&rest, &segment) &&
               put_segment(pointer, (mc_str){segment.data, segment.len}) == MICA_OK;
        if (good) at = child(s, at, (mc_str){segment.data, segment.len});
        good = good && mc_json_get_type(at) != MC_JSON_NONE &&
               (!rest.len || !is_resource(s, at, mc_buffer_cstr(pointer)));
    }
    mc_buffer_deinit(&segment);
    return good ? at : none;
}

/* Searches a value for schemas with an anchor. Returns how many there are; the last one is *found,
 * at *pointer. Documents are at most 256 levels deep. */
static int find_anchor(mc_schema *s, mc_json v, mc_str anchor, const char *at, mc_json *found,
                       const char **pointer) {
    mc_str text;
    int count = 0, number = 0;
    if (!mc_schema_work(s, 1 + strlen(at))) return 0; /* the places stay in the arena */
    if (mc_json_get_type(v) == MC_JSON_OBJECT) {
        if (is_resource(s, v, at)) return 0; /* it has its own ones */
        if (mc_json_get_str(mc_json_find(v, "$anchor"), &text) && mc_str_eq(text, anchor)) {
            *found = v;
            *pointer = at;
            count++;
        }
    }
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it); number++) {
        mc_json_type type = mc_json_get_type(it.value);
        char index[16];
        if (type != MC_JSON_OBJECT && type != MC_JSON_ARRAY) continue;
        snprintf(index, sizeof index, "%d", number);
        mc_buffer where = {0};
        const char *place = NULL;
        if (mc_buffer_add_text(&where, at) &&
            put_segment(&where, it.object ? it.key : mc_str_of(index)) == MICA_OK)
            place = mc_arena_strndup(&s->arena, where.data, where.len);
        mc_buffer_deinit(&where);
        if (!place) return mc_schema_nomem(s), 0;
        count += find_anchor(s, it.value, anchor, place, found, pointer);
    }
    return count;
}

/* The fragment of a reference, with its #, where it is to this schema: without a URI, or with the
 * root's, which is absolute. false: it is to another. */
static bool take_fragment(const mc_schema *s, mc_str *ref) {
    mc_str id;
    if (ref->len && ref->ptr[0] == '#') return true;
    if (!mc_json_get_str(mc_json_find(s->root, "$id"), &id)) return false;
    if (id.len && id.ptr[id.len - 1] == '#') id.len--;
    if (!id.len || !memchr(id.ptr, ':', id.len) || memchr(id.ptr, '#', id.len)) return false;
    if (!mc_str_starts(*ref, id)) return false;
    *ref = (mc_str){ref->ptr + id.len, ref->len - id.len};
    if (!ref->len) *ref = MC_STR("#");
    return ref->ptr[0] == '#';
}

mc_json mc_schema_resolve(mc_schema *s, mc_json ref, const char **pointer) {
    const mc_json none = {0};
    mc_json at = none;
    mc_buffer path = {0};
    mc_str text;
    const char *place = NULL;
    if (mc_json_get_str(ref, &text) && take_fragment(s, &text)) {
        mc_str rest = {text.ptr + 1, text.len - 1};
        if (!rest.len || rest.ptr[0] == '/') {
            at = follow_path(s, rest, &path);
            if (mc_json_get_type(at) != MC_JSON_NONE)
                place = mc_arena_strndup(&s->arena, path.data, path.len);
        } else if (find_anchor(s, s->root, rest, s->name, &at, &place) != 1) {
            place = NULL;
        }
    }
    mc_buffer_deinit(&path);
    if (pointer) *pointer = place;
    if (place) return at;
    mc_schema_fail(s, MICA_EUNSUPPORTED, "$ref",
                   "want \"#\", \"#/...\" or \"#anchor\", a place within the schema");
    return none;
}

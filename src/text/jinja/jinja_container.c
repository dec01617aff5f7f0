#include "text/jinja/jinja_container.h"

#include "text/jinja/jinja_str.h"

bool mc_jcontains(mc_jrun *r, mc_jvalue container, mc_jvalue v) {
    if (mc_jis(container, MC_J_STR)) {
        if (!mc_jis(v, MC_J_STR)) {
            mc_jerror(r, "'in <string>' requires string as left operand, not %s", mc_jtype(v.kind));
            return false;
        }
        return mc_jstr_find(r, container.text, v.text, 0) != SIZE_MAX;
    }
    if (mc_jis(container, MC_J_DICT)) return mc_jdict_find(r, container.dict, v);
    if (!mc_jis_iterable(container)) {
        mc_jerror(r, "argument of type '%s' is not iterable", mc_jtype(container.kind));
        return false;
    }
    const mc_jlist *items = mc_jelements(r, container);
    for (size_t i = 0; i < items->count && r->status == MICA_OK; i++) {
        if (mc_jequal(r, items->items[i], v)) return true;
    }
    return false;
}

size_t mc_jlength(mc_jrun *r, mc_jvalue v) {
    switch ((mc_jkind)v.kind) {
    case MC_J_UNDEFINED:
        return 0;
    case MC_J_STR:
        return mc_jstr_length(r, v.text);
    case MC_J_LIST:
    case MC_J_TUPLE:
        return v.list->count;
    case MC_J_DICT:
        return v.dict->count;
    case MC_J_LOOP:
    default:
        mc_jerror(r, "object of type '%s' has no len()", mc_jtype(v.kind));
        return 0;
    }
}

static mc_jlist *characters(mc_jrun *r, mc_str text) {
    mc_jlist *list = mc_jlist_new(r);
    for (size_t at = 0, n; at < text.len && r->status == MICA_OK; at += n) {
        n = mc_jstr_next(text, at);
        mc_jlist_push(r, list, mc_jstr((mc_str){text.ptr + at, n}));
    }
    return list;
}

static mc_jlist *keys(mc_jrun *r, const mc_jdict *dict) {
    mc_jlist *list = mc_jlist_new(r);
    for (size_t i = 0; i < dict->count; i++)
        mc_jlist_push(r, list, dict->pairs[i].key);
    return list;
}

mc_jlist *mc_jelements(mc_jrun *r, mc_jvalue v) {
    if (mc_jis_list(v)) return v.list;
    if (mc_jis(v, MC_J_STR)) return characters(r, v.text);
    if (mc_jis(v, MC_J_DICT)) return keys(r, v.dict);
    mc_jlist *list = mc_jlist_new(r);
    if (mc_jis(v, MC_J_ITERATOR)) {
        *list = *v.list;
        *v.list = (mc_jlist){0};
    } else if (!mc_jis(v, MC_J_UNDEFINED)) {
        mc_jerror(r, "'%s' object is not iterable", mc_jtype(v.kind));
    }
    return list;
}

#include "text/tokenizer/store.h"

#include "base/alloc.h"

mica_status mc_store_text(mc_store *store, mc_str text, mc_str *out) {
    char *copy = mc_arena_strndup(&store->arena, text.ptr, text.len);
    if (!copy) return mc_fail_nomem("tokenizer");
    *out = (mc_str){copy, text.len};
    return MICA_OK;
}

mica_status mc_store_regex(mc_store *store, mc_str pattern, const mc_regex **out) {
    mc_regex *regex = NULL;
    MC_TRY(mc_regex_compile(pattern, &regex));
    if (!mc_buffer_add(&store->regexes, &regex, sizeof regex)) {
        mc_regex_free(regex);
        return mc_fail_nomem("tokenizer");
    }
    *out = regex;
    return MICA_OK;
}

mica_status mc_store_classes(mc_store *store, const mc_classes **out) {
    if (!store->classes) {
        store->classes = mc_alloc(sizeof *store->classes);
        if (!store->classes) return mc_fail_nomem("tokenizer");
        mc_classes_init(store->classes);
    }
    *out = store->classes;
    return MICA_OK;
}

void mc_store_deinit(mc_store *store) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(&store->regexes, mc_regex *); i++)
        mc_regex_free(MC_BUFFER_AT(&store->regexes, mc_regex *)[i]);
    mc_buffer_deinit(&store->regexes);
    mc_free(store->classes);
    mc_arena_deinit(&store->arena);
    *store = (mc_store){0};
}

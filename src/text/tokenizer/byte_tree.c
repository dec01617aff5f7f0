#include "text/tokenizer/byte_tree.h"

static bool add_node(mc_byte_tree *t) {
    return MC_BUFFER_PUSH(&t->values, int32_t, -1);
}

/* The next node, which is made if there is none. */
static bool reach(mc_byte_tree *t, uint32_t *node, char byte) {
    if (mc_byte_tree_step(t, node, byte)) return true;
    size_t next = MC_BUFFER_COUNT(&t->values, int32_t);
    if (!add_node(t) || !mc_pairs_put(&t->edges, mc_pair_key(*node, (uint8_t)byte), next))
        return false;
    *node = (uint32_t)next;
    return true;
}

mica_status mc_byte_tree_put(mc_byte_tree *t, mc_str text, int32_t value, bool *fits) {
    uint32_t node = 0;
    *fits = text.len > 0 && text.len <= MC_BYTE_TREE_MAX_LEN;
    if (!*fits) return MICA_OK;
    if (t->values.len == 0 && !add_node(t)) return mc_fail_nomem("tokens");
    for (size_t i = 0; i < text.len; i++) {
        if (!reach(t, &node, text.ptr[i])) return mc_fail_nomem("tokens");
    }
    MC_BUFFER_AT(&t->values, int32_t)[node] = value;
    return MICA_OK;
}

void mc_byte_tree_deinit(mc_byte_tree *t) {
    mc_pairs_deinit(&t->edges);
    mc_buffer_deinit(&t->values);
    *t = (mc_byte_tree){0};
}

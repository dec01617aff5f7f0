/* In GGUF's order a row of queries or keys that RoPE rotates stands beside its other half, if the
 * architecture rotates pairs of neighbours. Heads of a delta net's values are in the order of
 * tiles, if they are more than its heads of keys: the first of each, the second of each, and so
 * on, where a folder has all of the first head of keys first. A folder may have gate and up in
 * turns, or all projections of a head of keys together. */
#include "convert/gguf_rows.h"

#include <string.h>

const mc_slot *mc_gguf_joined(const mc_block *kind, int slot) {
    for (int i = 0; i < kind->n_slots; i++)
        if (kind->slots[i].last && kind->slots[i].first <= slot && slot <= kind->slots[i].last)
            return &kind->slots[i];
    return NULL;
}

int64_t mc_gguf_rows(const mc_block_spec *block, int slot) {
    const mc_mla_spec *m = &block->mla;
    if (block->kind == &mc_block_mla && slot == MC_MLA_K_UP) return m->attention.heads * m->plain;
    if (block->kind == &mc_block_mla && slot == MC_MLA_V_UP)
        return m->attention.heads * m->value_dim;
    return block->kind->slots[slot].rows(block);
}

/* The place of a row of a slot of a delta net among those of both, by heads of keys. */
static int64_t place_delta_net(const mc_delta_net_spec *d, int slot, int64_t row) {
    int64_t values = d->value_heads / d->key_heads * d->value_dim;
    int64_t keys = d->key_heads * d->key_dim, whole = 2 * d->key_dim + 2 * values;
    if (slot == MC_DELTA_NET_Z)
        return row / values * whole + 2 * d->key_dim + values + row % values;
    if (row >= 2 * keys) {
        row -= 2 * keys;
        return row / values * whole + 2 * d->key_dim + row % values;
    }
    int64_t second = row / keys, at = row % keys;
    return at / d->key_dim * whole + second * d->key_dim + at % d->key_dim;
}

/* The place of a row of a slot in a joined slot. */
static int64_t place_joined(const mc_block_spec *block, const mc_slot *joined, int slot,
                            int64_t row) {
    if (joined->experts && block->experts.interleaved) return 2 * row + slot - joined->first;
    if (joined->by_heads && block->kind == &mc_block_delta_net)
        return place_delta_net(&block->delta_net, slot, row);
    if (joined->by_heads) {
        int64_t own = slot == MC_MLA_V_UP ? block->mla.value_dim : block->mla.plain;
        int64_t head = block->mla.plain + block->mla.value_dim;
        return row / own * head + (slot == MC_MLA_V_UP ? block->mla.plain : 0) + row % own;
    }
    for (int i = joined->first; i < slot; i++)
        row += mc_gguf_rows(block, i);
    return row;
}

/* The row of a head's that stands at a place among pairs of neighbours. */
static int64_t place_paired(int64_t row, int64_t dim) {
    int64_t head = row / dim, at = row % dim;
    return head * dim + at / 2 + at % 2 * (dim / 2);
}

/* The first of a slot's rows that are of heads of values, and the size of each; 0: none are. */
static int64_t tile_size(const mc_block_spec *block, int slot, int64_t *first) {
    const mc_delta_net_spec *d = &block->delta_net;
    *first = 0;
    switch (slot) {
    case MC_DELTA_NET_QKV:
    case MC_DELTA_NET_KERNEL:
        *first = 2 * d->key_heads * d->key_dim;
        return d->value_dim;
    case MC_DELTA_NET_Z:
        return d->value_dim;
    case MC_DELTA_NET_A:
    case MC_DELTA_NET_B:
    case MC_DELTA_NET_A_LOG:
    case MC_DELTA_NET_DT_BIAS:
        return 1;
    default:
        return 0;
    }
}

/* The head of values that stands at a place in the order of tiles. */
static int64_t place_tiled(const mc_delta_net_spec *d, int64_t head) {
    return head % d->key_heads * (d->value_heads / d->key_heads) + head / d->key_heads;
}

static bool is_tiled(const mc_gguf_arch *arch, const mc_block_spec *block) {
    return arch->tiled && block->kind == &mc_block_delta_net &&
           block->delta_net.value_heads != block->delta_net.key_heads;
}

bool mc_gguf_row_places(const mc_gguf_arch *arch, const mc_block_spec *block, int slot,
                        const mc_slot *joined, int32_t *places) {
    mc_extent *rotated = block->kind->slots[slot].rotated;
    int64_t rows = mc_gguf_rows(block, slot), first = 0, size = 0;
    int64_t dim = arch->permuted && rotated ? rows / rotated(block) : 0;
    if (is_tiled(arch, block)) size = tile_size(block, slot, &first);
    if (!joined && !dim && !size) return false;
    for (int64_t i = 0; i < rows; i++) {
        int64_t row = dim ? place_paired(i, dim) : i;
        if (size && i >= first)
            row = first + place_tiled(&block->delta_net, (i - first) / size) * size +
                  (i - first) % size;
        if (joined) row = place_joined(block, joined, slot, row);
        places[i] = (int32_t)row;
    }
    return true;
}

void mc_gguf_column_places(const mc_gguf_arch *arch, const mc_block_spec *block, int slot,
                           int64_t *run, int32_t *places) {
    *run = 0;
    if (!is_tiled(arch, block) || slot != MC_DELTA_NET_OUT) return;
    *run = block->delta_net.value_dim;
    for (int64_t i = 0; places && i < block->delta_net.value_heads; i++)
        places[i] = (int32_t)place_tiled(&block->delta_net, i);
}

mc_gguf_change mc_gguf_change_of(const mc_block_spec *block, int slot) {
    bool decay = (block->kind == &mc_block_delta_net && slot == MC_DELTA_NET_A_LOG) ||
                 (block->kind == &mc_block_mamba2 && slot == MC_MAMBA2_A_LOG);
    return decay ? MC_GGUF_DECAY : MC_GGUF_AS_IT_IS;
}

int mc_gguf_shape(const mc_block_spec *block, int slot, bool bias, int64_t shape[MICA_MAX_NDIM]) {
    const mc_slot *own = &block->kind->slots[slot];
    int n = 0;
    if (own->experts) shape[n++] = own->experts(block);
    shape[n++] = own->rows(block);
    if (bias) return n;
    if (own->columns) shape[n++] = own->columns(block);
    if (block->kind != &mc_block_mamba2) return n;
    if (slot == MC_MAMBA2_A_LOG || slot == MC_MAMBA2_D) shape[n++] = 1;
    if (slot == MC_MAMBA2_INNER_NORM) {
        shape[1] = shape[0] / block->mamba2.groups;
        shape[0] = block->mamba2.groups;
        n = 2;
    }
    return n;
}

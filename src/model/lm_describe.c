#include "model/lm.h"

static int64_t sliding_layers(const mc_decoder_spec *spec, int64_t *window) {
    int64_t count = 0;
    *window = 0;
    for (int i = 0; i < spec->n_layers; i++) {
        int64_t own = mc_spec_attention(spec, i)->window;
        if (!own) continue;
        *window = own;
        count++;
    }
    return count;
}

/* The first block of a kind; NULL: no layer has one. */
static const mc_block_spec *find_block(const mc_decoder_spec *spec, const mc_block *kind) {
    const mc_block_spec *block;
    for (int layer = 0; layer < spec->n_layers; layer++)
        for (int i = 0; (block = mc_spec_block(spec, layer, i)); i++)
            if (block->kind == kind) return block;
    return NULL;
}

/* Of layers' MLPs, else of those beside experts. */
static int64_t mlp_width(const mc_decoder_spec *spec) {
    const mc_block_spec *experts = find_block(spec, &mc_block_experts);
    if (find_block(spec, &mc_block_gated)) return spec->intermediate;
    return experts && experts->names[MC_EXPERTS_SHARED_DOWN] ? experts->experts.shared_width : 0;
}

/* Experts of a matrix that a token does not pick. */
static int64_t idle_experts(const mc_lm *lm, const mc_lm_slot *w) {
    const mc_block_spec *block = mc_spec_block(&lm->spec, w->layer, w->block);
    bool picked = w->linear.experts && block->kind == &mc_block_experts;
    return picked ? w->linear.experts - block->experts.picks : 0;
}

static uint64_t idle_parameters(const mc_lm *lm) {
    const mc_linear *table = &lm->layer_embed; /* of which a token has a row */
    uint64_t idle = table->out > 0 ? (uint64_t)(table->out - 1) * (uint64_t)table->in : 0;
    const mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));) {
        int64_t columns = w->linear.in + (mica_valid(w->linear.bias) ? 1 : 0);
        idle += (uint64_t)idle_experts(lm, w) * (uint64_t)w->linear.out * (uint64_t)columns;
    }
    return idle;
}

/* Bytes of one of n equal parts of a matrix, n being its rows or experts. */
static uint64_t bytes_of_one(const mc_linear *l, int64_t n) {
    const mica_array parts[] = {l->weight, l->scales, l->biases, l->gains};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (mica_valid(parts[i])) bytes += mica_array_bytes(parts[i]);
    return n > 0 ? bytes / (uint64_t)n : 0;
}

/* Of a table, all but a row. */
static uint64_t idle_rows(const mc_linear *table) {
    return table->out > 0 ? (uint64_t)(table->out - 1) * bytes_of_one(table, table->out) : 0;
}

static uint64_t active_bytes(const mc_lm *lm) {
    uint64_t idle = idle_rows(&lm->layer_embed);
    const mc_lm_slot *w;
    if (lm->head.weight.node != lm->embed.weight.node) idle += idle_rows(&lm->embed);
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
        if (idle_experts(lm, w))
            idle += (uint64_t)idle_experts(lm, w) * bytes_of_one(&w->linear, w->linear.experts);
    return idle < lm->weight_bytes ? lm->weight_bytes - idle : 0;
}

mica_model_info mc_lm_describe(const mc_lm *lm) {
    const mc_decoder_spec *spec = &lm->spec;
    mica_model_info info = {
        .family = spec->family,
        .architecture = *lm->model_type ? lm->model_type : spec->family,
        .dtype = mica_dtype_name(lm->dtype),
        .quantization = lm->quantization,
        .arithmetic = lm->head.fast ? MICA_ARITHMETIC_FAST : MICA_ARITHMETIC_EXACT,
        .parameters = lm->parameters,
        .weight_bytes = lm->weight_bytes,
        .layers = spec->n_layers,
        .hidden_size = spec->hidden,
        .heads = spec->heads,
        .kv_heads = spec->kv_heads,
        .head_dim = spec->head_dim,
        .intermediate_size = mlp_width(spec),
        .vocab_size = spec->vocab,
        .context_length = spec->context,
        .adapter = lm->adapter,
        .adapter_parameters = lm->adapter_parameters,
        .bits = lm->quant.bits,
        .group_size = lm->quant.group_size,
        .active_parameters = lm->parameters - idle_parameters(lm),
        .active_bytes = active_bytes(lm),
    };
    const mc_block_spec *experts = find_block(spec, &mc_block_experts);
    if (experts) {
        info.experts = experts->experts.count;
        info.experts_per_token = experts->experts.picks;
        info.expert_size = experts->experts.width;
    }
    info.sliding_layers = sliding_layers(spec, &info.sliding_window);
    if (lm->notes.len) info.note = lm->notes.data; /* mc_lm_note ends it with a NUL */
    return info;
}

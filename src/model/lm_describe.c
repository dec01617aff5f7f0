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

/* Parameters of experts that a token does not pick. */
static uint64_t idle_parameters(const mc_lm *lm) {
    uint64_t idle = 0;
    const mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));) {
        const mc_block_spec *block = mc_spec_block(&lm->spec, w->layer, w->block);
        const mc_linear *l = &w->linear;
        if (!l->experts || block->kind != &mc_block_experts) continue;
        int64_t columns = l->in + (mica_valid(l->bias) ? 1 : 0);
        idle +=
            (uint64_t)(l->experts - block->experts.picks) * (uint64_t)l->out * (uint64_t)columns;
    }
    return idle;
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
        .intermediate_size = spec->intermediate,
        .vocab_size = spec->vocab,
        .context_length = spec->context,
        .adapter = lm->adapter,
        .adapter_parameters = lm->adapter_parameters,
        .bits = lm->quant.bits,
        .group_size = lm->quant.group_size,
        .active_parameters = lm->parameters - idle_parameters(lm),
    };
    info.sliding_layers = sliding_layers(spec, &info.sliding_window);
    if (lm->notes.len) info.note = lm->notes.data; /* mc_lm_note ends it with a NUL */
    return info;
}

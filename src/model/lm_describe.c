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
    };
    info.sliding_layers = sliding_layers(spec, &info.sliding_window);
    if (lm->notes.len) info.note = lm->notes.data; /* mc_lm_note ends it with a NUL */
    return info;
}

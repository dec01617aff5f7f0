/* gpt-oss: openai/gpt-oss-20b, gpt-oss-120b.
 *
 * Attention with sinks and biases, in turns with a window and without, and RoPE stretched by yarn;
 * experts with biases and a clamped SwiGLU. The hub's files have mxfp4 experts, whose rows of gate
 * and up take turns; so have bf16 ones, which are transposed.
 *
 * Source: arXiv:2508.10925; the defaults of transformers 5. */
#include "model/family.h"

#include <math.h>

#define JOINED                                                        \
    {                                                                 \
        [MC_EXPERTS_GATE] = MC_NO_SLOT, [MC_EXPERTS_UP] = MC_NO_SLOT, \
        [MC_EXPERTS_GATE_UP] = "mlp.experts.gate_up_proj",            \
        [MC_EXPERTS_DOWN] = "mlp.experts.down_proj",                  \
    }

static const mc_form forms[] = {
    {.names = JOINED, .bare = true, .transposed = 1 << MC_EXPERTS_GATE_UP | 1 << MC_EXPERTS_DOWN},
    {.names = JOINED},
};

static mc_rope_spec rope_defaults(void) {
    mc_rope_spec rope = mc_rope_plain(150000);
    rope.kind = MC_ROPE_YARN;
    rope.factor = 32;
    rope.amplitude = 0.1 * log(32) + 1;
    rope.original_context = 4096;
    rope.beta_fast = 32;
    rope.beta_slow = 1;
    return rope;
}

static mica_status read_experts(const mc_config_scope *root, mc_block_spec *block) {
    const mc_expert_keys keys = {"num_local_experts",
                                 mc_config_has(root, "num_experts_per_tok") ? "num_experts_per_tok"
                                                                            : "experts_per_token",
                                 "intermediate_size"};
    block->experts = (mc_experts_spec){.count = 128,
                                       .picks = 4,
                                       .width = 2880,
                                       .interleaved = 1,
                                       .scoring = MC_SCORE_PICKED_SOFTMAX,
                                       .factor = 1,
                                       .limit = 7};
    block->names[MC_EXPERTS_ROUTER] = "mlp.router";
    block->names[MC_EXPERTS_GATE] = "mlp.experts.gate_proj";
    block->names[MC_EXPERTS_UP] = "mlp.experts.up_proj";
    block->names[MC_EXPERTS_DOWN] = "mlp.experts.down_proj";
    block->biases = 1 << MC_EXPERTS_ROUTER | 1 << MC_EXPERTS_GATE | 1 << MC_EXPERTS_UP |
                    1 << MC_EXPERTS_GATE_UP | 1 << MC_EXPERTS_DOWN;
    block->forms = forms;
    block->n_forms = sizeof forms / sizeof *forms;
    MC_TRY(mc_config_float(root, "swiglu_limit", MC_OPTIONAL, 1e-3, 1e6, &block->experts.limit));
    return mc_family_experts(root, &keys, block);
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    int64_t window = 128;
    bool bias = true;
    spec->context = 131072;
    spec->norm_eps = 1e-5;
    spec->intermediate = 2880;
    spec->head_dim = 64;
    spec->ropes[0] = rope_defaults();
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "attention_bias", MC_OPTIONAL, &bias));
    MC_TRY(mc_config_int(root, "sliding_window", MC_OPTIONAL, 1, INT32_MAX, &window));
    mc_family_biases(spec, bias, bias, false);
    mc_block_use(&spec->blocks[MC_PLAIN_ATTENTION], MC_ATTENTION_SINKS);
    int at = mc_spec_add(spec, &mc_block_experts);
    MC_TRY(read_experts(root, &spec->blocks[at]));
    mc_family_all_sparse(spec, at);
    return mc_family_windows(root, window, 2, spec);
}

MC_FAMILY(gpt_oss, read_spec, MC_NAMES("gpt_oss"), MC_NAMES("GptOssForCausalLM"), .chat = "harmony",
          .tensors = MC_NAMES("self_attn.sinks", "mlp.router.weight"));

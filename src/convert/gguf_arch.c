#include "convert/gguf_arch.h"

#include "model/sentence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define END \
    { .number = MC_GGUF_NUMBERS }
#define ROW(key, config, number, type, fallback, required) \
    { key, config, number, type, fallback, required, NULL, 0 }
#define INT(key, config, number) ROW(key, config, number, MC_GGUF_INT, NAN, false)
#define NEED(key, config, number) ROW(key, config, number, MC_GGUF_INT, NAN, true)
#define REAL(key, config, number) ROW(key, config, number, MC_GGUF_REAL, NAN, false)
#define ELSE(key, config, number, fallback) ROW(key, config, number, MC_GGUF_REAL, fallback, false)
#define FOUND(block, slot, config) \
    { NULL, config, MC_GGUF_ONE, MC_GGUF_FOUND, NAN, false, &mc_block_##block, slot }
#define ALWAYS(key, value) ROW(key, NULL, MC_GGUF_ONE, MC_GGUF_INT, value, false)
#define NEVER(key) ROW(key, NULL, MC_GGUF_ONE, MC_GGUF_BOOL, 0, false)

const mc_gguf_row mc_gguf_common[] = {
    NEED("context_length", "max_position_embeddings", MC_GGUF_CONTEXT),
    NEED("embedding_length", "hidden_size", MC_GGUF_HIDDEN),
    NEED("block_count", "num_hidden_layers", MC_GGUF_LAYERS),
    NEED("attention.head_count", "num_attention_heads", MC_GGUF_HEADS),
    INT("vocab_size", "vocab_size", MC_GGUF_VOCAB),
    END};

static const mc_gguf_row bias_rows[] = {FOUND(attention, MC_ATTENTION_Q, "attention_bias"),
                                        FOUND(gated, MC_GATED_UP, "mlp_bias"), END};

static const mc_gguf_row gemma2_rows[] = {
    ELSE("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW, 4096),
    ELSE("attn_logit_softcapping", "attn_logit_softcapping", MC_GGUF_SCORE_CAP, 50),
    ELSE("final_logit_softcapping", "final_logit_softcapping", MC_GGUF_LOGIT_CAP, 30), END};

static const mc_gguf_row gemma3_rows[] = {
    ELSE("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW, 1024),
    REAL("final_logit_softcapping", "final_logit_softcapping", MC_GGUF_LOGIT_CAP), END};

static const mc_gguf_row gemma4_rows[] = {
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW),
    REAL("final_logit_softcapping", "final_logit_softcapping", MC_GGUF_LOGIT_CAP),
    ROW("attention.shared_kv_layers", "num_kv_shared_layers", MC_GGUF_SHARED_LAYERS, MC_GGUF_INT, 0,
        false),
    ROW("embedding_length_per_layer_input", "hidden_size_per_layer_input", MC_GGUF_LAYER_WIDTH,
        MC_GGUF_INT, 0, false),
    INT(NULL, "vocab_size_per_layer_input", MC_GGUF_LAYER_ROWS),
    ROW(NULL, "enable_moe_block", MC_GGUF_EXPERTS, MC_GGUF_BOOL, NAN, false),
    INT("expert_count", "num_experts", MC_GGUF_EXPERTS),
    INT("expert_used_count", "top_k_experts", MC_GGUF_PICKS),
    INT("expert_feed_forward_length", "moe_intermediate_size", MC_GGUF_EXPERT_WIDTH),
    END};

static const mc_gguf_row mistral3_rows[] = {
    REAL("attention.temperature_scale", NULL, MC_GGUF_GROWTH),
    FOUND(attention, MC_ATTENTION_Q, "attention_bias"), END};

#define EXPERTS(count, width)                                           \
    INT("expert_count", count, MC_GGUF_EXPERTS),                        \
        INT("expert_used_count", "num_experts_per_tok", MC_GGUF_PICKS), \
        INT("expert_feed_forward_length", width, MC_GGUF_EXPERT_WIDTH)

static const mc_gguf_row mixtral_rows[] = {EXPERTS("num_local_experts", NULL), END};
static const mc_gguf_row qwen3moe_rows[] = {EXPERTS("num_experts", "moe_intermediate_size"),
                                            FOUND(attention, MC_ATTENTION_Q, "attention_bias"),
                                            END};
static const mc_gguf_row olmoe_rows[] = {EXPERTS("num_experts", NULL), END};

#define DELTA_NET                                                                 \
    INT("ssm.conv_kernel", "linear_conv_kernel_dim", MC_GGUF_TAPS),               \
        INT("ssm.state_size", "linear_key_head_dim", MC_GGUF_STATE),              \
        INT("ssm.group_count", "linear_num_key_heads", MC_GGUF_STATE_GROUPS),     \
        INT("ssm.time_step_rank", "linear_num_value_heads", MC_GGUF_STATE_HEADS), \
        INT("ssm.inner_size", NULL, MC_GGUF_INNER),                               \
        INT(NULL, "linear_value_head_dim", MC_GGUF_INNER_DIM)
#define SHARED_EXPERT                                                               \
    EXPERTS("num_experts", "moe_intermediate_size"),                                \
        INT("expert_shared_feed_forward_length", "shared_expert_intermediate_size", \
            MC_GGUF_SHARED_WIDTH)

static const mc_gguf_row qwen35_rows[] = {DELTA_NET,
                                          FOUND(attention, MC_ATTENTION_Q, "attention_bias"), END};
static const mc_gguf_row qwen35moe_rows[] = {DELTA_NET, SHARED_EXPERT, END};

static const mc_gguf_row gpt_oss_rows[] = {
    EXPERTS("num_local_experts", NULL),
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW), END};

static const mc_gguf_row olmo3_rows[] = {
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW), END};

static const mc_gguf_row phi3_rows[] = {
    ROW("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW, MC_GGUF_INT, NAN, false),
    END};

#define GRANITE                                                                  \
    REAL("attention.scale", "attention_multiplier", MC_GGUF_SCALE),              \
        ELSE("embedding_scale", "embedding_multiplier", MC_GGUF_EMBED_SCALE, 1), \
        ELSE("residual_scale", "residual_multiplier", MC_GGUF_ADDED_SCALE, 1),   \
        ELSE("logit_scale", "logits_scaling", MC_GGUF_LOGIT_DIVISOR, 1),         \
        FOUND(attention, MC_ATTENTION_Q, "attention_bias"), FOUND(gated, MC_GATED_UP, "mlp_bias")

static const mc_gguf_row granite_rows[] = {GRANITE, END};
static const mc_gguf_row granite_swa_rows[] = {
    GRANITE, INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW), END};
#define GRANITE_EXPERTS                                                                        \
    GRANITE, ROW("expert_count", "num_local_experts", MC_GGUF_EXPERTS, MC_GGUF_INT, 0, false), \
        ROW("expert_used_count", "num_experts_per_tok", MC_GGUF_PICKS, MC_GGUF_INT, 0, false), \
        INT("expert_shared_feed_forward_length", "shared_intermediate_size",                   \
            MC_GGUF_SHARED_WIDTH),                                                             \
        ROW("rope.scaling.finetuned", "position_embedding_type", MC_GGUF_ROTATES,              \
            MC_GGUF_POSITIONS, 1, false)

static const mc_gguf_row granitemoe_rows[] = {GRANITE, EXPERTS("num_local_experts", NULL), END};
static const mc_gguf_row granitemoe_shared_rows[] = {GRANITE_EXPERTS, END};
static const mc_gguf_row granitehybrid_rows[] = {
    GRANITE_EXPERTS,
    INT("ssm.conv_kernel", "mamba_d_conv", MC_GGUF_TAPS),
    INT("ssm.state_size", "mamba_d_state", MC_GGUF_STATE),
    INT("ssm.group_count", "mamba_n_groups", MC_GGUF_STATE_GROUPS),
    INT("ssm.time_step_rank", "mamba_n_heads", MC_GGUF_STATE_HEADS),
    INT("ssm.inner_size", NULL, MC_GGUF_INNER),
    INT(NULL, "mamba_d_head", MC_GGUF_INNER_DIM),
    INT(NULL, "mamba_expand", MC_GGUF_EXPAND),
    FOUND(mamba2, MC_MAMBA2_BIAS, "mamba_conv_bias"),
    END};

#define NEMOTRON                                                           \
    REAL("attention.layer_norm_epsilon", NULL, MC_GGUF_EPS),               \
        INT("ssm.conv_kernel", "conv_kernel", MC_GGUF_TAPS),               \
        INT("ssm.state_size", "ssm_state_size", MC_GGUF_STATE),            \
        INT("ssm.group_count", "n_groups", MC_GGUF_STATE_GROUPS),          \
        INT("ssm.time_step_rank", "mamba_num_heads", MC_GGUF_STATE_HEADS), \
        INT("ssm.inner_size", NULL, MC_GGUF_INNER),                        \
        INT(NULL, "mamba_head_dim", MC_GGUF_INNER_DIM),                    \
        FOUND(mamba2, MC_MAMBA2_BIAS, "use_conv_bias"),                    \
        FOUND(attention, MC_ATTENTION_Q, "attention_bias"), FOUND(gated, MC_GATED_UP, "mlp_bias")

static const mc_gguf_row nemotron_rows[] = {NEMOTRON, END};
static const mc_gguf_row nemotron_moe_rows[] = {
    NEMOTRON,
    EXPERTS("n_routed_experts", "moe_intermediate_size"),
    INT("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size",
        MC_GGUF_SHARED_WIDTH),
    ALWAYS("expert_shared_count", 1),
    ROW("expert_weights_norm", "norm_topk_prob", MC_GGUF_RENORMALISED, MC_GGUF_BOOL, NAN, false),
    REAL("expert_weights_scale", "routed_scaling_factor", MC_GGUF_FACTOR),
    INT("expert_group_count", "n_group", MC_GGUF_GROUPS),
    INT("expert_group_used_count", "topk_group", MC_GGUF_TOP_GROUPS),
    END};

static const mc_gguf_row lfm2_rows[] = {INT("shortconv.l_cache", "conv_L_cache", MC_GGUF_TAPS),
                                        FOUND(short_conv, MC_SHORT_CONV_BIAS, "conv_bias"), END};
static const mc_gguf_row lfm2moe_rows[] = {INT("shortconv.l_cache", "conv_L_cache", MC_GGUF_TAPS),
                                           FOUND(short_conv, MC_SHORT_CONV_BIAS, "conv_bias"),
                                           FOUND(experts, MC_EXPERTS_CHOICE, "use_expert_bias"),
                                           EXPERTS("num_experts", "moe_intermediate_size"),
                                           ROW("leading_dense_block_count", "num_dense_layers",
                                               MC_GGUF_DENSE_LAYERS, MC_GGUF_INT, 0, false),
                                           ALWAYS("expert_gating_func", 2), /* sigmoid */
                                           END};

static const mc_gguf_row deepseek2_rows[] = {
    INT("attention.q_lora_rank", "q_lora_rank", MC_GGUF_QUERY_LATENT),
    NEED("attention.kv_lora_rank", "kv_lora_rank", MC_GGUF_LATENT),
    NEED("attention.key_length_mla", NULL, MC_GGUF_KEY_DIM),
    NEED("attention.value_length_mla", "v_head_dim", MC_GGUF_VALUE_DIM),
    INT(NULL, "qk_nope_head_dim", MC_GGUF_PLAIN_DIM),
    INT(NULL, "qk_rope_head_dim", MC_GGUF_ROTATED),
    EXPERTS("n_routed_experts", "moe_intermediate_size"),
    INT("expert_shared_count", "n_shared_experts", MC_GGUF_SHARED_COUNT),
    ROW("leading_dense_block_count", "first_k_dense_replace", MC_GGUF_DENSE_LAYERS, MC_GGUF_INT, 0,
        false),
    ROW("expert_weights_norm", "norm_topk_prob", MC_GGUF_RENORMALISED, MC_GGUF_BOOL, 0, false),
    ELSE("expert_weights_scale", "routed_scaling_factor", MC_GGUF_FACTOR, 1),
    ROW("expert_group_count", "n_group", MC_GGUF_GROUPS, MC_GGUF_INT, 1, false),
    ROW("expert_group_used_count", "topk_group", MC_GGUF_TOP_GROUPS, MC_GGUF_INT, 1, false),
    ALWAYS("expert_gating_func", 2), /* sigmoid */
    END};

static const mc_gguf_row gemma3n_rows[] = {
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW),
    ELSE("final_logit_softcapping", "final_logit_softcapping", MC_GGUF_LOGIT_CAP, 30),
    ROW("attention.shared_kv_layers", "num_kv_shared_layers", MC_GGUF_SHARED_LAYERS, MC_GGUF_INT, 0,
        false),
    NEED("embedding_length_per_layer_input", "hidden_size_per_layer_input", MC_GGUF_LAYER_WIDTH),
    INT(NULL, "vocab_size_per_layer_input", MC_GGUF_LAYER_ROWS),
    NEED("altup.num_inputs", "altup_num_inputs", MC_GGUF_STREAMS),
    INT("altup.active_idx", "altup_active_idx", MC_GGUF_ACTIVE_STREAM),
    FOUND(altup, MC_ALTUP_SCALE, "altup_correct_scale"),
    INT(NULL, "laurel_rank", MC_GGUF_RANK),
    END};

#define ENCODER REAL("attention.layer_norm_epsilon", NULL, MC_GGUF_EPS), NEVER("attention.causal")
#define TYPES INT("tokenizer.ggml.token_type_count", "type_vocab_size", MC_GGUF_TYPES)

static const mc_gguf_row bert_rows[] = {ENCODER, TYPES, END};
static const mc_gguf_row nomic_bert_rows[] = {
    ENCODER, TYPES, FOUND(attention, MC_ATTENTION_QKV, "qkv_proj_bias"), END};
static const mc_gguf_row modern_bert_rows[] = {
    ENCODER, INT("attention.sliding_window", "local_attention", MC_GGUF_WINDOW),
    ROW("hidden_activation", "hidden_activation", MC_GGUF_ACTIVATION, MC_GGUF_FUNCTION, MC_GELU,
        false),
    END};
static const mc_gguf_row gemma_embedding_rows[] = {
    NEVER("attention.causal"),
    ELSE("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW, 512), END};

static const mc_gguf_name post_norm_names[] = {
    {&mc_block_attention, MC_BLOCK_NORM, "attn_output_norm"},
    {&mc_block_gated, MC_BLOCK_NORM, "layer_output_norm"},
    {NULL, 0, NULL}};
static const mc_gguf_name mlp_norm_names[] = {
    {&mc_block_gated, MC_BLOCK_NORM, "post_attention_norm"},
    {&mc_block_experts, MC_BLOCK_NORM, "post_attention_norm"},
    {NULL, 0, NULL}};
static const mc_gguf_name one_norm_names[] = {{&mc_block_gated, MC_BLOCK_NORM, "attn_norm"},
                                              {&mc_block_experts, MC_BLOCK_NORM, "attn_norm"},
                                              {NULL, 0, NULL}};
static const mc_gguf_name gemma4_names[] = {{&mc_block_experts, MC_EXPERTS_SHARED_GATE, "ffn_gate"},
                                            {&mc_block_experts, MC_EXPERTS_SHARED_UP, "ffn_up"},
                                            {&mc_block_experts, MC_EXPERTS_SHARED_DOWN, "ffn_down"},
                                            {NULL, 0, NULL}};

#define SILU "\"hidden_act\": \"silu\""
#define GELU "\"hidden_activation\": \"gelu_pytorch_tanh\""
#define WINDOWS \
    { [MC_GGUF_FULL] = "full_attention", [MC_GGUF_SLIDING] = "sliding_attention" }
#define LINEAR \
    { [MC_GGUF_FULL] = "full_attention", [MC_GGUF_CARRYING] = "linear_attention" }
#define CONV \
    { [MC_GGUF_FULL] = "full_attention", [MC_GGUF_CARRYING] = "conv" }
#define MAMBA                                                                                 \
    {                                                                                         \
        [MC_GGUF_FULL] = "attention", [MC_GGUF_CARRYING] = "mamba", [MC_GGUF_SPARSE] = "moe", \
        [MC_GGUF_MLP] = "mlp",                                                                \
    }

#define ARCH(NAME, MODEL_TYPE, ARCHITECTURE, ROWS, ...)                                     \
    {                                                                                       \
        .name = NAME, .model_type = MODEL_TYPE, .architecture = ARCHITECTURE, .rows = ROWS, \
        __VA_ARGS__                                                                         \
    }

/* Of several that hold a family, the first that can tell a model is written; of several with a
 * name, the first whose `experts`, `windows` and `unshared` a file has is read. */
static const mc_gguf_arch archs[] = {
    ARCH("llama", "llama", "LlamaForCausalLM", bias_rows, .families = {"llama", "mistral"},
         .whole_heads = true, .permuted = true, .activation = SILU),
    ARCH("mistral3", "ministral3", "Ministral3ForCausalLM", mistral3_rows, .families = {"mistral"},
         .permuted = true, .rope = MC_GGUF_ROPE_PARAMETERS, .activation = SILU),
    ARCH("llama", "mixtral", "MixtralForCausalLM", mixtral_rows, .families = {"mixtral"},
         .whole_heads = true, .permuted = true, .experts = MC_GGUF_YES, .activation = SILU),
    ARCH("qwen2", "qwen2", "Qwen2ForCausalLM", bias_rows, .families = {"qwen2"},
         .activation = SILU),
    ARCH("qwen3", "qwen3", "Qwen3ForCausalLM", bias_rows, .families = {"qwen3"},
         .activation = SILU),
    ARCH("qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", qwen3moe_rows, .families = {"qwen3_moe"},
         .experts = MC_GGUF_YES, .activation = SILU ",\n    \"norm_topk_prob\": true"),
    ARCH("qwen35", "qwen3_5_text", "Qwen3_5ForCausalLM", qwen35_rows, .families = {"qwen3_5"},
         .tiled = true, .carry = MC_GGUF_CARRY_LIST, .rope = MC_GGUF_ROPE_PARAMETERS,
         .kinds = LINEAR, .names = mlp_norm_names, .activation = SILU),
    ARCH("qwen35moe", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", qwen35moe_rows,
         .families = {"qwen3_5_moe"}, .tiled = true, .experts = MC_GGUF_YES,
         .carry = MC_GGUF_CARRY_LIST, .rope = MC_GGUF_ROPE_PARAMETERS, .kinds = LINEAR,
         .names = mlp_norm_names, .activation = SILU),
    ARCH("qwen3next", "qwen3_next", "Qwen3NextForCausalLM", qwen35moe_rows,
         .families = {"qwen3_next"}, .experts = MC_GGUF_YES, .carry = MC_GGUF_CARRY_LIST,
         .kinds = LINEAR, .names = mlp_norm_names,
         .activation = SILU ",\n    \"norm_topk_prob\": true"),
    ARCH("gemma2", "gemma2", "Gemma2ForCausalLM", gemma2_rows, .families = {"gemma2"},
         .gemma = true, .windows = MC_GGUF_ANY, .period = 2, .kinds = WINDOWS, .activation = GELU),
    ARCH("gemma3", "gemma3_text", "Gemma3ForCausalLM", gemma3_rows, .families = {"gemma3"},
         .gemma = true, .windows = MC_GGUF_ANY, .period = 6, .kinds = WINDOWS, .activation = GELU),
    ARCH("gemma4", "gemma4_text", "Gemma4ForCausalLM", gemma4_rows, .families = {"gemma4"},
         .gemma = true, .experts = MC_GGUF_ANY, .windows = MC_GGUF_ANY, .period = 6,
         .lists_windows = true, .rope = MC_GGUF_ROPE_KINDS, .kinds = WINDOWS, .names = gemma4_names,
         .activation = GELU),
    ARCH("gemma-embedding", "gemma3_text", "Gemma3TextModel", gemma_embedding_rows,
         .families = {"gemma3"}, .gemma = true, .both_ways = true, .windows = MC_GGUF_ANY,
         .period = 6, .kinds = WINDOWS,
         .activation = GELU ",\n    \"use_bidirectional_attention\": true"),
    ARCH("gemma3n", "gemma3n_text", "Gemma3nForCausalLM", gemma3n_rows, .families = {"gemma3n"},
         .gemma = true, .spares = true, .sparse = true, .windows = MC_GGUF_ANY, .period = 5,
         .lists_windows = true, .kinds = WINDOWS, .activation = GELU),
    ARCH("bert", "bert", "BertModel", bert_rows, .families = {"bert"},
         .ranker = "BertForSequenceClassification", .both_ways = true, .rope = MC_GGUF_ROPE_NONE,
         .names = post_norm_names, .eps = "layer_norm_eps", .prefix = "",
         .activation = "\"hidden_act\": \"gelu\""),
    ARCH("nomic-bert", "nomic_bert", "NomicBertModel", nomic_bert_rows, .families = {"nomic_bert"},
         .joined = true, .whole_heads = true, .both_ways = true, .rope = MC_GGUF_ROPE_PARAMETERS,
         .names = post_norm_names, .eps = "layer_norm_eps", .prefix = "", .activation = SILU),
    ARCH("modern-bert", "modernbert", "ModernBertModel", modern_bert_rows,
         .families = {"modernbert"}, .ranker = "ModernBertForSequenceClassification",
         .joined = true, .whole_heads = true, .both_ways = true, .windows = MC_GGUF_ANY,
         .period = 3, .first_full = true, .lists_windows = true, .rope = MC_GGUF_ROPE_KINDS,
         .kinds = WINDOWS, .eps = "norm_eps", .prefix = "", .activation = "\"norm_bias\": false"),
    ARCH("gpt-oss", "gpt_oss", "GptOssForCausalLM", gpt_oss_rows, .families = {"gpt_oss"},
         .experts = MC_GGUF_YES, .windows = MC_GGUF_ANY, .period = 2, .kinds = WINDOWS,
         .names = mlp_norm_names, .activation = SILU),
    ARCH("olmo2", "olmo3", "Olmo3ForCausalLM", olmo3_rows, .families = {"olmo3"},
         .windows = MC_GGUF_YES, .period = 4, .lists_windows = true, .rope = MC_GGUF_ROPE_KINDS,
         .kinds = WINDOWS, .activation = SILU),
    ARCH("olmo2", "olmo2", "Olmo2ForCausalLM", bias_rows, .families = {"olmo2"},
         .activation = SILU),
    ARCH("olmoe", "olmoe", "OlmoeForCausalLM", olmoe_rows, .families = {"olmoe"},
         .experts = MC_GGUF_YES, .activation = SILU ",\n    \"norm_topk_prob\": false"),
    ARCH("phi3", "phi3", "Phi3ForCausalLM", phi3_rows, .families = {"phi3"}, .joined = true,
         .windows = MC_GGUF_ANY, .activation = SILU),
    ARCH("smollm3", "smollm3", "SmolLM3ForCausalLM", bias_rows, .families = {"smollm3"},
         .permuted = true, .activation = SILU),
    ARCH("granite", "granite", "GraniteForCausalLM", granite_rows,
         .families = {"granite", "granitemoehybrid"}, .permuted = true, .activation = SILU),
    ARCH("granitemoe", "granitemoe", "GraniteMoeForCausalLM", granitemoe_rows,
         .families = {"granitemoe"}, .permuted = true, .experts = MC_GGUF_YES, .unshared = true,
         .activation = SILU),
    ARCH("granitemoe", "granitemoehybrid", "GraniteMoeHybridForCausalLM", granitemoe_shared_rows,
         .families = {"granitemoehybrid"}, .permuted = true, .experts = MC_GGUF_YES, .kinds = MAMBA,
         .activation = SILU ",\n    \"mamba_n_heads\": 1"),
    ARCH("granite_swa", "granite_swa", "GraniteSWAForCausalLM", granite_swa_rows,
         .families = {"granite_swa"}, .permuted = true, .windows = MC_GGUF_ANY,
         .lists_windows = true, .rope = MC_GGUF_ROPE_LAYERS, .kinds = WINDOWS, .activation = SILU),
    ARCH("granitehybrid", "granitemoehybrid", "GraniteMoeHybridForCausalLM", granitehybrid_rows,
         .families = {"granitemoehybrid"}, .permuted = true, .experts = MC_GGUF_ANY,
         .carry = MC_GGUF_CARRY_HEADS, .kinds = MAMBA, .activation = SILU),
    ARCH("nemotron_h_moe", "nemotron_h", "NemotronHForCausalLM", nemotron_moe_rows,
         .families = {"nemotron_h"}, .experts = MC_GGUF_YES, .carry = MC_GGUF_CARRY_HEADS,
         .kinds = MAMBA, .names = one_norm_names, .eps = "layer_norm_epsilon",
         .prefix = "backbone.", .activation = "\"mlp_hidden_act\": \"relu2\""),
    ARCH("nemotron_h", "nemotron_h", "NemotronHForCausalLM", nemotron_rows,
         .families = {"nemotron_h"}, .carry = MC_GGUF_CARRY_HEADS, .kinds = MAMBA,
         .names = one_norm_names, .eps = "layer_norm_epsilon", .prefix = "backbone.",
         .activation = "\"mlp_hidden_act\": \"relu2\""),
    ARCH("deepseek2", "deepseek_v3", "DeepseekV3ForCausalLM", deepseek2_rows,
         .families = {"deepseek_v3", "glm4_moe_lite"}, .latents = true, .experts = MC_GGUF_YES,
         .activation =
             SILU ",\n    \"rope_interleave\": true,\n    \"num_nextn_predict_layers\": 0"),
    ARCH("lfm2", "lfm2", "Lfm2ForCausalLM", lfm2_rows, .families = {"lfm2"},
         .carry = MC_GGUF_CARRY_HEADS, .kinds = CONV, .last_norm = "token_embd_norm",
         .eps = "norm_eps", .activation = "\"block_auto_adjust_ff_dim\": false"),
    ARCH("lfm2moe", "lfm2_moe", "Lfm2MoeForCausalLM", lfm2moe_rows, .families = {"lfm2_moe"},
         .experts = MC_GGUF_YES, .carry = MC_GGUF_CARRY_HEADS, .kinds = CONV,
         .last_norm = "token_embd_norm", .eps = "norm_eps",
         .activation = "\"norm_topk_prob\": true"),
};

enum { ARCHS = sizeof archs / sizeof *archs };

const mc_gguf_arch *mc_gguf_arch_at(size_t i) {
    return i < ARCHS ? &archs[i] : NULL;
}

const char *mc_gguf_key(const mc_gguf_arch *arch, const char *key, char text[MC_GGUF_KEY_BYTES]) {
    bool own = !mc_str_starts(mc_str_of(key), MC_STR("tokenizer."));
    snprintf(text, MC_GGUF_KEY_BYTES, "%s%s%s", own ? arch->name : "", own ? "." : "", key);
    return text;
}

/* Whether a file has a number above 0. */
static bool has(const mc_gguf *gguf, const mc_gguf_arch *arch, const char *key) {
    char text[MC_GGUF_KEY_BYTES];
    int64_t n = 0;
    mc_gguf_int(gguf, mc_gguf_key(arch, key, text), &n);
    return n > 0;
}

static bool is(mc_gguf_has wanted, bool found) {
    return wanted == MC_GGUF_ANY || (wanted == MC_GGUF_YES) == found;
}

/* The names of all architectures, each once. */
static void list_archs(char *out, size_t bytes) {
    size_t len = 0;
    for (size_t i = 0; i < ARCHS && len < bytes; i++) {
        size_t k = 0;
        while (strcmp(archs[k].name, archs[i].name) != 0)
            k++;
        if (k == i)
            len += (size_t)snprintf(out + len, bytes - len, "%s%s", len ? ", " : "", archs[i].name);
    }
}

mica_status mc_gguf_arch_find(const mc_gguf *gguf, const mc_gguf_arch **arch) {
    mc_str name = MC_STR("");
    char known[512];
    mc_gguf_str(gguf, "general.architecture", &name);
    for (size_t i = 0; i < ARCHS; i++) {
        const mc_gguf_arch *a = *arch = &archs[i];
        if (mc_str_is(name, a->name) && is(a->experts, has(gguf, a, "expert_count")) &&
            !(a->unshared && has(gguf, a, "expert_shared_feed_forward_length")) &&
            (a->windows != MC_GGUF_YES || has(gguf, a, "attention.sliding_window")))
            return MICA_OK;
    }
    list_archs(known, sizeof known);
    return mc_fail(MICA_EUNSUPPORTED, "%s: general.architecture is '%.*s'; mica converts %s",
                   mc_gguf_path(gguf), name.len < 40 ? (int)name.len : 40, name.ptr, known);
}

int64_t mc_gguf_ahead(const mc_gguf *gguf, const mc_gguf_arch *arch) {
    char text[MC_GGUF_KEY_BYTES];
    int64_t n = 0;
    mc_gguf_int(gguf, mc_gguf_key(arch, "nextn_predict_layers", text), &n);
    return n < 0 || n > MC_MAX_LAYERS ? 0 : n;
}

bool mc_gguf_arch_holds(const mc_gguf_arch *arch, const char *family) {
    for (size_t i = 0; i < sizeof arch->families / sizeof *arch->families; i++)
        if (arch->families[i] && strcmp(arch->families[i], family) == 0) return true;
    return false;
}

/* ---- names ---- */

bool mc_gguf_slot_name(const mc_gguf_arch *arch, const mc_block *kind, int slot, bool bias,
                       char *out, size_t bytes) {
    const mc_slot *own = &kind->slots[slot];
    const char *name = own->gguf;
    for (const mc_gguf_name *n = arch->names; n && n->kind; n++)
        if (n->kind == kind && n->slot == slot) name = n->name;
    return name && snprintf(out, bytes, "%s%s", name,
                            own->bare ? ""
                            : bias    ? ".bias"
                                      : ".weight") < (int)bytes;
}

enum { NORM = 1, BIAS = 2, PLAIN = 4, WIDE = 8, SKIPS = 16, PADDED = 32, STACK = 64 };

static const struct {
    const char *gguf;
    size_t at; /* of its name in mc_decoder_names */
    int is;
} tops[] = {
    {"token_embd", offsetof(mc_decoder_names, embed), 0},
    {"output_norm", offsetof(mc_decoder_names, norm), NORM | BIAS},
    {"output", offsetof(mc_decoder_names, head), PLAIN},
    {"per_layer_token_embd", offsetof(mc_decoder_names, layer_embed), PADDED},
    {"per_layer_model_proj", offsetof(mc_decoder_names, layer_projection), 0},
    {"per_layer_proj_norm", offsetof(mc_decoder_names, layer_norm), NORM},
    {"token_embd_norm", offsetof(mc_decoder_names, embed_norm), NORM | BIAS},
    {"position_embd", offsetof(mc_decoder_names, positions), WIDE | SKIPS},
    {"token_types", offsetof(mc_decoder_names, types), WIDE},
    {"altup_proj", offsetof(mc_decoder_names, streams), STACK},
    {"altup_unembd_proj", offsetof(mc_decoder_names, unstreams), STACK},
};

enum { TOPS = sizeof tops / sizeof *tops, RANKER_PARTS = 3 };

static const char *const endings[] = {".weight", ".bias"};

/* Tensor i of those in the table, two for each row; false: the model has none. */
static bool make_top(const mc_gguf_arch *arch, const mc_decoder_spec *spec, size_t i,
                     mc_gguf_top *top) {
    const char *name;
    int is = tops[i / 2].is;
    memcpy(&name, (const char *)&spec->names + tops[i / 2].at, sizeof name);
    if (!name || (i % 2 == 1 && !(is & BIAS && spec->norm_bias))) return false;
    *top = (mc_gguf_top){.gguf = tops[i / 2].gguf,
                         .module = name,
                         .ending = endings[i % 2],
                         .plain = is & PLAIN,
                         .norm = is & NORM && i % 2 == 0,
                         .wide = is & WIDE,
                         .stacked = is & STACK ? (int)spec->streams - 1 : 0,
                         .skipped = is & SKIPS ? spec->first_position : 0};
    if (is & PADDED && spec->layer_rows < spec->vocab) top->rows = spec->vocab;
    if (name == spec->names.norm && arch->last_norm) top->gguf = arch->last_norm;
    return true;
}

/* The same of the heads of cross-encoders. */
static bool make_ranker_top(const mc_gguf_arch *arch, size_t i, mc_gguf_top *top) {
    static const char *const names[RANKER_PARTS] = {"cls", "cls.norm", "cls.output"};
    const mc_ranker_names *ranker = mc_ranker_names_at(i / (2 * RANKER_PARTS));
    const char *modules[RANKER_PARTS] = {ranker->dense, ranker->norm, ranker->out};
    size_t part = i / 2 % RANKER_PARTS;
    if (!arch->ranker || !modules[part] || (ranker->norm != NULL) != arch->joined) return false;
    *top = (mc_gguf_top){.gguf = names[part],
                         .module = modules[part],
                         .ending = endings[i % 2],
                         .plain = part == 2 || !ranker->inner,
                         .other = ranker->outs};
    return true;
}

bool mc_gguf_next_top(const mc_gguf_arch *arch, const mc_decoder_spec *spec, size_t *i,
                      mc_gguf_top *top) {
    for (;;) {
        size_t at = (*i)++;
        if (at < 2 * TOPS) {
            if (make_top(arch, spec, at, top)) return true;
        } else if (!mc_ranker_names_at((at - 2 * TOPS) / (2 * RANKER_PARTS)))
            return false;
        else if (make_ranker_top(arch, at - 2 * TOPS, top))
            return true;
    }
}

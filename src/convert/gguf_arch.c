#include "convert/gguf_arch.h"

#include "model/sentence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define END \
    { .number = MC_GGUF_NUMBERS }
#define INT(key, config, number) \
    { key, config, number, MC_GGUF_INT, NAN, false }
#define NEED(key, config, number) \
    { key, config, number, MC_GGUF_INT, NAN, true }
#define REAL(key, config, number) \
    { key, config, number, MC_GGUF_REAL, NAN, false }
#define ELSE(key, config, number, fallback) \
    { key, config, number, MC_GGUF_REAL, fallback, false }
#define FOUND(tensor, config) \
    { tensor, config, MC_GGUF_ONE, MC_GGUF_FOUND, NAN, false }
#define ALWAYS(key, value) \
    { key, NULL, MC_GGUF_ONE, MC_GGUF_INT, value, false }
#define NEVER(key) \
    { key, NULL, MC_GGUF_ONE, MC_GGUF_BOOL, 0, false }

const mc_gguf_row mc_gguf_common[] = {
    NEED("context_length", "max_position_embeddings", MC_GGUF_CONTEXT),
    NEED("embedding_length", "hidden_size", MC_GGUF_HIDDEN),
    NEED("block_count", "num_hidden_layers", MC_GGUF_LAYERS),
    NEED("attention.head_count", "num_attention_heads", MC_GGUF_HEADS),
    INT("vocab_size", "vocab_size", MC_GGUF_VOCAB),
    END};

static const mc_gguf_row bias_rows[] = {FOUND("attn_q.bias", "attention_bias"),
                                        FOUND("ffn_up.bias", "mlp_bias"), END};

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
    {"attention.shared_kv_layers", "num_kv_shared_layers", MC_GGUF_SHARED_LAYERS, MC_GGUF_INT, 0,
     false},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", MC_GGUF_LAYER_WIDTH,
     MC_GGUF_INT, 0, false},
    INT(NULL, "vocab_size_per_layer_input", MC_GGUF_LAYER_ROWS),
    {NULL, "enable_moe_block", MC_GGUF_EXPERTS, MC_GGUF_BOOL, NAN, false},
    INT("expert_count", "num_experts", MC_GGUF_EXPERTS),
    INT("expert_used_count", "top_k_experts", MC_GGUF_PICKS),
    INT("expert_feed_forward_length", "moe_intermediate_size", MC_GGUF_EXPERT_WIDTH),
    END};

static const mc_gguf_row mistral3_rows[] = {
    REAL("attention.temperature_scale", NULL, MC_GGUF_GROWTH),
    FOUND("attn_q.bias", "attention_bias"), END};

#define EXPERTS(count, width)                                           \
    INT("expert_count", count, MC_GGUF_EXPERTS),                        \
        INT("expert_used_count", "num_experts_per_tok", MC_GGUF_PICKS), \
        INT("expert_feed_forward_length", width, MC_GGUF_EXPERT_WIDTH)

static const mc_gguf_row mixtral_rows[] = {EXPERTS("num_local_experts", NULL), END};
static const mc_gguf_row qwen3moe_rows[] = {EXPERTS("num_experts", "moe_intermediate_size"),
                                            FOUND("attn_q.bias", "attention_bias"), END};
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

static const mc_gguf_row qwen35_rows[] = {DELTA_NET, FOUND("attn_q.bias", "attention_bias"), END};
static const mc_gguf_row qwen35moe_rows[] = {DELTA_NET, SHARED_EXPERT, END};

static const mc_gguf_row gpt_oss_rows[] = {
    EXPERTS("num_local_experts", NULL),
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW), END};

static const mc_gguf_row olmo3_rows[] = {
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW), END};

static const mc_gguf_row phi3_rows[] = {
    {"attention.sliding_window", "sliding_window", MC_GGUF_WINDOW, MC_GGUF_INT, NAN, false}, END};

#define GRANITE                                                                  \
    REAL("attention.scale", "attention_multiplier", MC_GGUF_SCALE),              \
        ELSE("embedding_scale", "embedding_multiplier", MC_GGUF_EMBED_SCALE, 1), \
        ELSE("residual_scale", "residual_multiplier", MC_GGUF_ADDED_SCALE, 1),   \
        ELSE("logit_scale", "logits_scaling", MC_GGUF_LOGIT_DIVISOR, 1),         \
        FOUND("attn_q.bias", "attention_bias"), FOUND("ffn_up.bias", "mlp_bias")

static const mc_gguf_row granite_rows[] = {GRANITE, END};
static const mc_gguf_row granite_swa_rows[] = {
    GRANITE, INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW), END};
#define GRANITE_EXPERTS                                                                          \
    GRANITE, {"expert_count", "num_local_experts", MC_GGUF_EXPERTS, MC_GGUF_INT, 0, false},      \
        {"expert_used_count", "num_experts_per_tok", MC_GGUF_PICKS, MC_GGUF_INT, 0, false},      \
        INT("expert_shared_feed_forward_length", "shared_intermediate_size",                     \
            MC_GGUF_SHARED_WIDTH),                                                               \
    {                                                                                            \
        "rope.scaling.finetuned", "position_embedding_type", MC_GGUF_ROTATES, MC_GGUF_POSITIONS, \
            1, false                                                                             \
    }

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
    FOUND("ssm_conv1d.bias", "mamba_conv_bias"),
    END};

#define NEMOTRON                                                                                   \
    REAL("attention.layer_norm_epsilon", NULL, MC_GGUF_EPS),                                       \
        INT("ssm.conv_kernel", "conv_kernel", MC_GGUF_TAPS),                                       \
        INT("ssm.state_size", "ssm_state_size", MC_GGUF_STATE),                                    \
        INT("ssm.group_count", "n_groups", MC_GGUF_STATE_GROUPS),                                  \
        INT("ssm.time_step_rank", "mamba_num_heads", MC_GGUF_STATE_HEADS),                         \
        INT("ssm.inner_size", NULL, MC_GGUF_INNER),                                                \
        INT(NULL, "mamba_head_dim", MC_GGUF_INNER_DIM), FOUND("ssm_conv1d.bias", "use_conv_bias"), \
        FOUND("attn_q.bias", "attention_bias"), FOUND("ffn_up.bias", "mlp_bias")

static const mc_gguf_row nemotron_rows[] = {NEMOTRON, END};
static const mc_gguf_row nemotron_moe_rows[] = {
    NEMOTRON,
    EXPERTS("n_routed_experts", "moe_intermediate_size"),
    INT("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size",
        MC_GGUF_SHARED_WIDTH),
    ALWAYS("expert_shared_count", 1),
    {"expert_weights_norm", "norm_topk_prob", MC_GGUF_RENORMALISED, MC_GGUF_BOOL, NAN, false},
    REAL("expert_weights_scale", "routed_scaling_factor", MC_GGUF_FACTOR),
    INT("expert_group_count", "n_group", MC_GGUF_GROUPS),
    INT("expert_group_used_count", "topk_group", MC_GGUF_TOP_GROUPS),
    END};

static const mc_gguf_row lfm2_rows[] = {INT("shortconv.l_cache", "conv_L_cache", MC_GGUF_TAPS),
                                        FOUND("shortconv.conv.bias", "conv_bias"), END};
static const mc_gguf_row lfm2moe_rows[] = {
    INT("shortconv.l_cache", "conv_L_cache", MC_GGUF_TAPS),
    FOUND("shortconv.conv.bias", "conv_bias"),
    FOUND("exp_probs_b.bias", "use_expert_bias"),
    EXPERTS("num_experts", "moe_intermediate_size"),
    {"leading_dense_block_count", "num_dense_layers", MC_GGUF_DENSE_LAYERS, MC_GGUF_INT, 0, false},
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
    {"leading_dense_block_count", "first_k_dense_replace", MC_GGUF_DENSE_LAYERS, MC_GGUF_INT, 0,
     false},
    {"expert_weights_norm", "norm_topk_prob", MC_GGUF_RENORMALISED, MC_GGUF_BOOL, 0, false},
    ELSE("expert_weights_scale", "routed_scaling_factor", MC_GGUF_FACTOR, 1),
    {"expert_group_count", "n_group", MC_GGUF_GROUPS, MC_GGUF_INT, 1, false},
    {"expert_group_used_count", "topk_group", MC_GGUF_TOP_GROUPS, MC_GGUF_INT, 1, false},
    ALWAYS("expert_gating_func", 2), /* sigmoid */
    END};

static const mc_gguf_row gemma3n_rows[] = {
    INT("attention.sliding_window", "sliding_window", MC_GGUF_WINDOW),
    ELSE("final_logit_softcapping", "final_logit_softcapping", MC_GGUF_LOGIT_CAP, 30),
    {"attention.shared_kv_layers", "num_kv_shared_layers", MC_GGUF_SHARED_LAYERS, MC_GGUF_INT, 0,
     false},
    NEED("embedding_length_per_layer_input", "hidden_size_per_layer_input", MC_GGUF_LAYER_WIDTH),
    INT(NULL, "vocab_size_per_layer_input", MC_GGUF_LAYER_ROWS),
    NEED("altup.num_inputs", "altup_num_inputs", MC_GGUF_STREAMS),
    INT("altup.active_idx", "altup_active_idx", MC_GGUF_ACTIVE_STREAM),
    FOUND("altup_correct_scale.weight", "altup_correct_scale"),
    INT(NULL, "laurel_rank", MC_GGUF_RANK),
    END};

#define ENCODER REAL("attention.layer_norm_epsilon", NULL, MC_GGUF_EPS), NEVER("attention.causal")
#define TYPES INT("tokenizer.ggml.token_type_count", "type_vocab_size", MC_GGUF_TYPES)

static const mc_gguf_row bert_rows[] = {ENCODER, TYPES, END};
static const mc_gguf_row nomic_bert_rows[] = {ENCODER, TYPES,
                                              FOUND("attn_qkv.bias", "qkv_proj_bias"), END};
static const mc_gguf_row modern_bert_rows[] = {
    ENCODER,
    INT("attention.sliding_window", "local_attention", MC_GGUF_WINDOW),
    {"hidden_activation", "hidden_activation", MC_GGUF_ACTIVATION, MC_GGUF_FUNCTION, MC_GELU,
     false},
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

/* Of several that hold a family, the first that can tell a model is written; of several with a
 * name, the first whose `experts`, `windows` and `unshared` a file has is read. */
static const mc_gguf_arch archs[] = {
    {.name = "llama",
     .whole_heads = true,
     .families = {"llama", "mistral"},
     .model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .permuted = true,
     .rows = bias_rows,
     .activation = SILU},
    {.name = "mistral3",
     .families = {"mistral"},
     .model_type = "ministral3",
     .architecture = "Ministral3ForCausalLM",
     .permuted = true,
     .rope = MC_GGUF_ROPE_PARAMETERS,
     .rows = mistral3_rows,
     .activation = SILU},
    {.name = "llama",
     .whole_heads = true,
     .families = {"mixtral"},
     .model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .permuted = true,
     .experts = MC_GGUF_YES,
     .rows = mixtral_rows,
     .activation = SILU},
    {.name = "qwen2",
     .families = {"qwen2"},
     .model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .rows = bias_rows,
     .activation = SILU},
    {.name = "qwen3",
     .families = {"qwen3"},
     .model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .rows = bias_rows,
     .activation = SILU},
    {.name = "qwen3moe",
     .families = {"qwen3_moe"},
     .model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .experts = MC_GGUF_YES,
     .rows = qwen3moe_rows,
     .activation = SILU ",\n    \"norm_topk_prob\": true"},
    {.name = "qwen35",
     .families = {"qwen3_5"},
     .model_type = "qwen3_5_text",
     .architecture = "Qwen3_5ForCausalLM",
     .tiled = true,
     .carry = MC_GGUF_CARRY_LIST,
     .rope = MC_GGUF_ROPE_PARAMETERS,
     .kinds = LINEAR,
     .names = mlp_norm_names,
     .rows = qwen35_rows,
     .activation = SILU},
    {.name = "qwen35moe",
     .families = {"qwen3_5_moe"},
     .model_type = "qwen3_5_moe_text",
     .architecture = "Qwen3_5MoeForCausalLM",
     .tiled = true,
     .experts = MC_GGUF_YES,
     .carry = MC_GGUF_CARRY_LIST,
     .rope = MC_GGUF_ROPE_PARAMETERS,
     .kinds = LINEAR,
     .names = mlp_norm_names,
     .rows = qwen35moe_rows,
     .activation = SILU},
    {.name = "qwen3next",
     .families = {"qwen3_next"},
     .model_type = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     .experts = MC_GGUF_YES,
     .carry = MC_GGUF_CARRY_LIST,
     .kinds = LINEAR,
     .names = mlp_norm_names,
     .rows = qwen35moe_rows,
     .activation = SILU ",\n    \"norm_topk_prob\": true"},
    {.name = "gemma2",
     .families = {"gemma2"},
     .model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .gemma = true,
     .windows = MC_GGUF_ANY,
     .period = 2,
     .kinds = WINDOWS,
     .rows = gemma2_rows,
     .activation = GELU},
    {.name = "gemma3",
     .families = {"gemma3"},
     .model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .gemma = true,
     .windows = MC_GGUF_ANY,
     .period = 6,
     .kinds = WINDOWS,
     .rows = gemma3_rows,
     .activation = GELU},
    {.name = "gemma4",
     .families = {"gemma4"},
     .model_type = "gemma4_text",
     .architecture = "Gemma4ForCausalLM",
     .gemma = true,
     .experts = MC_GGUF_ANY,
     .windows = MC_GGUF_ANY,
     .period = 6,
     .lists_windows = true,
     .rope = MC_GGUF_ROPE_KINDS,
     .kinds = WINDOWS,
     .names = gemma4_names,
     .rows = gemma4_rows,
     .activation = GELU},
    {.name = "gemma-embedding",
     .families = {"gemma3"},
     .model_type = "gemma3_text",
     .architecture = "Gemma3TextModel",
     .gemma = true,
     .both_ways = true,
     .windows = MC_GGUF_ANY,
     .period = 6,
     .kinds = WINDOWS,
     .rows = gemma_embedding_rows,
     .activation = GELU ",\n    \"use_bidirectional_attention\": true"},
    {.name = "gemma3n",
     .families = {"gemma3n"},
     .model_type = "gemma3n_text",
     .architecture = "Gemma3nForCausalLM",
     .gemma = true,
     .spares = true,
     .sparse = true,
     .windows = MC_GGUF_ANY,
     .period = 5,
     .lists_windows = true,
     .kinds = WINDOWS,
     .rows = gemma3n_rows,
     .activation = GELU},
    {.name = "bert",
     .families = {"bert"},
     .model_type = "bert",
     .architecture = "BertModel",
     .ranker = "BertForSequenceClassification",
     .both_ways = true,
     .rope = MC_GGUF_ROPE_NONE,
     .names = post_norm_names,
     .rows = bert_rows,
     .eps = "layer_norm_eps",
     .prefix = "",
     .activation = "\"hidden_act\": \"gelu\""},
    {.name = "nomic-bert",
     .families = {"nomic_bert"},
     .model_type = "nomic_bert",
     .architecture = "NomicBertModel",
     .joined = true,
     .whole_heads = true,
     .both_ways = true,
     .rope = MC_GGUF_ROPE_PARAMETERS,
     .names = post_norm_names,
     .rows = nomic_bert_rows,
     .eps = "layer_norm_eps",
     .prefix = "",
     .activation = SILU},
    {.name = "modern-bert",
     .families = {"modernbert"},
     .model_type = "modernbert",
     .architecture = "ModernBertModel",
     .ranker = "ModernBertForSequenceClassification",
     .joined = true,
     .whole_heads = true,
     .both_ways = true,
     .windows = MC_GGUF_ANY,
     .period = 3,
     .first_full = true,
     .lists_windows = true,
     .rope = MC_GGUF_ROPE_KINDS,
     .kinds = WINDOWS,
     .rows = modern_bert_rows,
     .eps = "norm_eps",
     .prefix = "",
     .activation = "\"norm_bias\": false"},
    {.name = "gpt-oss",
     .families = {"gpt_oss"},
     .model_type = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .experts = MC_GGUF_YES,
     .windows = MC_GGUF_ANY,
     .period = 2,
     .kinds = WINDOWS,
     .names = mlp_norm_names,
     .rows = gpt_oss_rows,
     .activation = SILU},
    {.name = "olmo2",
     .families = {"olmo3"},
     .model_type = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .windows = MC_GGUF_YES,
     .period = 4,
     .lists_windows = true,
     .rope = MC_GGUF_ROPE_KINDS,
     .kinds = WINDOWS,
     .rows = olmo3_rows,
     .activation = SILU},
    {.name = "olmo2",
     .families = {"olmo2"},
     .model_type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .rows = bias_rows,
     .activation = SILU},
    {.name = "olmoe",
     .families = {"olmoe"},
     .model_type = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .experts = MC_GGUF_YES,
     .rows = olmoe_rows,
     .activation = SILU ",\n    \"norm_topk_prob\": false"},
    {.name = "phi3",
     .families = {"phi3"},
     .model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .joined = true,
     .windows = MC_GGUF_ANY,
     .rows = phi3_rows,
     .activation = SILU},
    {.name = "smollm3",
     .families = {"smollm3"},
     .model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .permuted = true,
     .rows = bias_rows,
     .activation = SILU},
    {.name = "granite",
     .families = {"granite", "granitemoehybrid"},
     .model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .permuted = true,
     .rows = granite_rows,
     .activation = SILU},
    {.name = "granitemoe",
     .families = {"granitemoe"},
     .model_type = "granitemoe",
     .architecture = "GraniteMoeForCausalLM",
     .permuted = true,
     .experts = MC_GGUF_YES,
     .unshared = true,
     .rows = granitemoe_rows,
     .activation = SILU},
    {.name = "granitemoe",
     .families = {"granitemoehybrid"},
     .model_type = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .permuted = true,
     .experts = MC_GGUF_YES,
     .kinds = MAMBA,
     .rows = granitemoe_shared_rows,
     .activation = SILU ",\n    \"mamba_n_heads\": 1"},
    {.name = "granite_swa",
     .families = {"granite_swa"},
     .model_type = "granite_swa",
     .architecture = "GraniteSWAForCausalLM",
     .permuted = true,
     .windows = MC_GGUF_ANY,
     .lists_windows = true,
     .rope = MC_GGUF_ROPE_LAYERS,
     .kinds = WINDOWS,
     .rows = granite_swa_rows,
     .activation = SILU},
    {.name = "granitehybrid",
     .families = {"granitemoehybrid"},
     .model_type = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .permuted = true,
     .experts = MC_GGUF_ANY,
     .carry = MC_GGUF_CARRY_HEADS,
     .kinds = MAMBA,
     .rows = granitehybrid_rows,
     .activation = SILU},
    {.name = "nemotron_h_moe",
     .families = {"nemotron_h"},
     .model_type = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .experts = MC_GGUF_YES,
     .carry = MC_GGUF_CARRY_HEADS,
     .kinds = MAMBA,
     .names = one_norm_names,
     .rows = nemotron_moe_rows,
     .eps = "layer_norm_epsilon",
     .prefix = "backbone.",
     .activation = "\"mlp_hidden_act\": \"relu2\""},
    {.name = "nemotron_h",
     .families = {"nemotron_h"},
     .model_type = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .carry = MC_GGUF_CARRY_HEADS,
     .kinds = MAMBA,
     .names = one_norm_names,
     .rows = nemotron_rows,
     .eps = "layer_norm_epsilon",
     .prefix = "backbone.",
     .activation = "\"mlp_hidden_act\": \"relu2\""},
    {.name = "deepseek2",
     .families = {"deepseek_v3", "glm4_moe_lite"},
     .model_type = "deepseek_v3",
     .architecture = "DeepseekV3ForCausalLM",
     .latents = true,
     .experts = MC_GGUF_YES,
     .rows = deepseek2_rows,
     .activation = SILU ",\n    \"rope_interleave\": true,\n    \"num_nextn_predict_layers\": 0"},
    {.name = "lfm2",
     .families = {"lfm2"},
     .model_type = "lfm2",
     .architecture = "Lfm2ForCausalLM",
     .carry = MC_GGUF_CARRY_HEADS,
     .kinds = CONV,
     .rows = lfm2_rows,
     .last_norm = "token_embd_norm",
     .eps = "norm_eps",
     .activation = "\"block_auto_adjust_ff_dim\": false"},
    {.name = "lfm2moe",
     .families = {"lfm2_moe"},
     .model_type = "lfm2_moe",
     .architecture = "Lfm2MoeForCausalLM",
     .experts = MC_GGUF_YES,
     .carry = MC_GGUF_CARRY_HEADS,
     .kinds = CONV,
     .rows = lfm2moe_rows,
     .last_norm = "token_embd_norm",
     .eps = "norm_eps",
     .activation = "\"norm_topk_prob\": true"},
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

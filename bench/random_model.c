/* Writes a model folder with the shape of a real model and random weights, for benchmarks.
 *
 *     random_model SHAPE TOKENIZER_DIR OUT_DIR [FORMAT]
 *
 * SHAPE is a row of the table below. FORMAT is 4bit (the default), 8bit, mxfp4 or bf16; in gpt-oss
 * it is that of the experts alone, and all else is bf16. The
 * tokenizer files, which the command needs, are copied from TOKENIZER_DIR. The model's answers are
 * noise. Weights are chosen so that activations stay near 1 in size. Affine weights have bfloat16
 * scales, and biases of -2^(bits - 1) scales. Formats without biases can express these, too, so
 * other programs can get exactly the same numbers (bench/peers). */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_TENSORS = 2048, MAX_NORMS = 6, NAME = 96 };

/* The norms of a layer, and the members of config.json besides the sizes. */
typedef struct family {
    struct {
        const char *name;
        bool of_heads; /* [head_dim]; false: [hidden] */
    } norms[MAX_NORMS];
    float norm; /* the weight that does not change a normalised row */
    const char *config;
    const char *router, *experts; /* NULL: there are none */
    bool has_sinks;               /* and biases; only experts are quantised */
} family;

static const family gemma3 = {
    .norms = {{"input_layernorm", false},
              {"post_attention_layernorm", false},
              {"pre_feedforward_layernorm", false},
              {"post_feedforward_layernorm", false},
              {"self_attn.q_norm", true},
              {"self_attn.k_norm", true}},
    .norm = 0.0f,
    .config = "\"model_type\": \"gemma3_text\", \"architectures\": [\"Gemma3ForCausalLM\"],\n"
              " \"hidden_activation\": \"gelu_pytorch_tanh\", \"query_pre_attn_scalar\": 256,\n"
              " \"sliding_window_pattern\": 6, \"rope_theta\": 1000000.0,\n"
              " \"rope_local_base_freq\": 10000.0, \"rms_norm_eps\": 1e-06,\n"
              " \"max_position_embeddings\": 32768, \"bos_token_id\": 2, \"eos_token_id\": 1",
};

static const family qwen3 = {
    .norms = {{"input_layernorm", false},
              {"post_attention_layernorm", false},
              {"self_attn.q_norm", true},
              {"self_attn.k_norm", true}},
    .norm = 1.0f,
    .config = "\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"],\n"
              " \"hidden_act\": \"silu\", \"attention_bias\": false, \"rope_theta\": 1000000.0,\n"
              " \"rms_norm_eps\": 1e-06, \"max_position_embeddings\": 40960,\n"
              " \"bos_token_id\": 151643, \"eos_token_id\": 151645",
};

static const family llama = {
    .norms = {{"input_layernorm", false}, {"post_attention_layernorm", false}},
    .norm = 1.0f,
    .config = "\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"],\n"
              " \"hidden_act\": \"silu\", \"attention_bias\": false, \"mlp_bias\": false,\n"
              " \"rope_theta\": 500000.0, \"rms_norm_eps\": 1e-05,\n"
              " \"max_position_embeddings\": 131072, \"bos_token_id\": 128000,\n"
              " \"eos_token_id\": 128001",
};

static const family qwen3_moe = {
    .norms = {{"input_layernorm", false},
              {"post_attention_layernorm", false},
              {"self_attn.q_norm", true},
              {"self_attn.k_norm", true}},
    .norm = 1.0f,
    .config = "\"model_type\": \"qwen3_moe\", \"architectures\": [\"Qwen3MoeForCausalLM\"],\n"
              " \"hidden_act\": \"silu\", \"attention_bias\": false, \"rope_theta\": 1000000.0,\n"
              " \"rms_norm_eps\": 1e-06, \"max_position_embeddings\": 40960,\n"
              " \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], \"norm_topk_prob\": true,\n"
              " \"bos_token_id\": 151643, \"eos_token_id\": 151645",
    .router = "mlp.gate",
    .experts = "mlp.switch_mlp",
};

static const family gpt_oss = {
    .norms = {{"input_layernorm", false}, {"post_attention_layernorm", false}},
    .norm = 1.0f,
    .config =
        "\"model_type\": \"gpt_oss\", \"architectures\": [\"GptOssForCausalLM\"],\n"
        " \"hidden_act\": \"silu\", \"attention_bias\": true, \"rope_theta\": 150000,\n"
        " \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, \"truncate\": false,\n"
        "  \"beta_fast\": 32.0, \"beta_slow\": 1.0,"
        " \"original_max_position_embeddings\": 4096},\n"
        " \"rms_norm_eps\": 1e-05, \"max_position_embeddings\": 131072,\n"
        " \"sliding_window\": 128, \"swiglu_limit\": 7.0, \"eos_token_id\": 200002",
    .router = "mlp.router",
    .experts = "mlp.experts",
    .has_sinks = true,
};

typedef struct shape {
    const char *name;
    const family *family;
    int layers, hidden, heads, kv_heads, head_dim, mlp, vocab; /* mlp: of an expert */
    bool tied;
    const char *config; /* members of config.json for this size only; NULL: none */
    int experts;
} shape;

#define STRETCHED(factor)                                                \
    "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": " #factor \
    ", \"low_freq_factor\": 1.0,\n  \"high_freq_factor\": 4.0,"          \
    " \"original_max_position_embeddings\": 8192}"

static const shape shapes[] = {
    {"gemma3-270m", &gemma3, 18, 640, 4, 1, 256, 2048, 262144, true, "\"sliding_window\": 512", 0},
    {"gemma3-1b", &gemma3, 26, 1152, 4, 1, 256, 6912, 262144, true, "\"sliding_window\": 512", 0},
    {"gemma3-4b", &gemma3, 34, 2560, 8, 4, 256, 10240, 262144, true, "\"sliding_window\": 1024", 0},
    {"llama3.2-1b", &llama, 16, 2048, 32, 8, 64, 8192, 128256, true, STRETCHED(32.0), 0},
    {"llama3.1-8b", &llama, 32, 4096, 32, 8, 128, 14336, 128256, false, STRETCHED(8.0), 0},
    {"llama3.1-8b-8layers", &llama, 8, 4096, 32, 8, 128, 14336, 128256, false, STRETCHED(8.0), 0},
    {"qwen3-0.6b", &qwen3, 28, 1024, 16, 8, 128, 3072, 151936, true, NULL, 0},
    {"qwen3-30b-a3b", &qwen3_moe, 48, 2048, 32, 4, 128, 768, 151936, false,
     "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768", 128},
    {"gpt-oss-20b", &gpt_oss, 24, 2880, 64, 8, 64, 2880, 201088, false,
     "\"num_local_experts\": 32, \"num_experts_per_tok\": 4, \"experts_per_token\": 4", 32},
};

/* The format of matrices; bits 0: bfloat16. `spread` is the standard deviation of uniform codes'
 * values, in units of the scale. */
typedef struct format {
    const char *name, *mode;
    int bits, group;
    float spread;
} format;

static const format formats[] = {
    {"4bit", "affine", 4, 64, 4.61f},
    {"8bit", "affine", 8, 64, 73.9f},
    {"mxfp4", "mxfp4", 4, 32, 2.93f},
    {"bf16", NULL, 0, 0, 0.0f},
};
static const format *const bf16 = &formats[3];

/* The contents of a tensor: random bits, random numbers, or one number. */
typedef enum kind { CODES, NUMBERS, CONSTANT, EXPONENT } kind;

typedef struct tensor {
    char name[NAME];
    kind kind;
    int64_t rows, cols; /* in elements of the file; rows 0: a vector */
    int64_t stack;      /* so many matrices; 0: it is one */
    float value;        /* NUMBERS: the maximum; CONSTANT: the number; EXPONENT: the power of two */
} tensor;

/* Bytes of an element in the file, and its type in the header. */
static const struct {
    int bytes;
    const char *dtype;
} stored[] = {[CODES] = {4, "U32"},
              [NUMBERS] = {2, "BF16"},
              [CONSTANT] = {2, "BF16"},
              [EXPONENT] = {1, "U8"}};

static tensor tensors[MAX_TENSORS];
static int n_tensors;

static void fail(const char *what, const char *name) {
    fprintf(stderr, "random_model: cannot %s %s: %s\n", what, name, strerror(errno));
    exit(1);
}

static void add(const char *prefix, const char *suffix, kind k, int64_t rows, int64_t cols,
                float value) {
    tensor *t = &tensors[n_tensors++];
    snprintf(t->name, NAME, "%s%s", prefix, suffix);
    t->kind = k;
    t->rows = rows;
    t->cols = cols;
    t->value = value;
}

/* What was added from tensor `first` on is `count` matrices each. */
static void stack(int first, int count) {
    for (int i = first; i < n_tensors; i++)
        tensors[i].stack = count;
}

/* Weights of variance 1 / inputs. */
static void add_linear(const format *f, const char *prefix, int64_t outputs, int64_t inputs) {
    float deviation = 1.0f / sqrtf((float)inputs);
    float scale = deviation / f->spread;
    if (f->bits == 0) {
        add(prefix, ".weight", NUMBERS, outputs, inputs, sqrtf(3.0f) * deviation);
        return;
    }
    add(prefix, ".weight", CODES, outputs, inputs * f->bits / 32, 0.0f);
    if (strcmp(f->mode, "affine") != 0) {
        add(prefix, ".scales", EXPONENT, outputs, inputs / f->group, roundf(log2f(scale)));
        return;
    }
    add(prefix, ".scales", CONSTANT, outputs, inputs / f->group, scale);
    add(prefix, ".biases", CONSTANT, outputs, inputs / f->group,
        -scale * (float)(1 << (f->bits - 1)));
}

typedef struct linear {
    const char *name;
    int64_t outputs, inputs;
} linear;

static void add_linears(const shape *s, const format *f, const char *prefix, const linear *of,
                        size_t n, int experts) {
    char name[NAME - 16];
    for (size_t i = 0; i < n; i++) {
        int first = n_tensors;
        snprintf(name, sizeof name, "%s.%s", prefix, of[i].name);
        add_linear(f, name, of[i].outputs, of[i].inputs);
        stack(first, experts);
        if (s->family->has_sinks) add(name, ".bias", CONSTANT, experts, of[i].outputs, 0.0f);
    }
}

static void add_layer(const shape *s, const format *f, int layer) {
    const linear attention[] = {
        {"q_proj", s->heads * s->head_dim, s->hidden},
        {"k_proj", s->kv_heads * s->head_dim, s->hidden},
        {"v_proj", s->kv_heads * s->head_dim, s->hidden},
        {"o_proj", s->hidden, s->heads * s->head_dim},
    };
    const linear mlp[] = {
        {"gate_proj", s->mlp, s->hidden},
        {"up_proj", s->mlp, s->hidden},
        {"down_proj", s->hidden, s->mlp},
    };
    const format *other = s->family->has_sinks ? bf16 : f;
    char prefix[NAME / 2], name[NAME - 32];
    snprintf(prefix, sizeof prefix, "model.layers.%d", layer);
    snprintf(name, sizeof name, "%s.self_attn", prefix);
    add_linears(s, other, name, attention, 4, 0);
    if (s->family->has_sinks) add(name, ".sinks", CONSTANT, 0, s->heads, 0.0f);
    snprintf(name, sizeof name, "%s.%s", prefix, s->experts ? s->family->experts : "mlp");
    add_linears(s, f, name, mlp, 3, s->experts);
    if (s->experts) {
        const linear router = {s->family->router, s->experts, s->hidden};
        add_linears(s, other, prefix, &router, 1, 0);
    }
    for (int i = 0; i < MAX_NORMS && s->family->norms[i].name; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, s->family->norms[i].name);
        add(name, ".weight", CONSTANT, 0, s->family->norms[i].of_heads ? s->head_dim : s->hidden,
            s->family->norm);
    }
}

static void add_model(const shape *s, const format *f) {
    const format *other = s->family->has_sinks ? bf16 : f;
    add_linear(other, "model.embed_tokens", s->vocab, s->hidden);
    for (int i = 0; i < s->layers; i++)
        add_layer(s, f, i);
    add("model.norm", ".weight", CONSTANT, 0, s->hidden, s->family->norm);
    if (!s->tied) add_linear(other, "lm_head", s->vocab, s->hidden);
}

static int64_t tensor_bytes(const tensor *t) {
    return (t->stack > 0 ? t->stack : 1) * (t->rows > 0 ? t->rows : 1) * t->cols *
           stored[t->kind].bytes;
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void) { /* xorshift64, Marsaglia 2003 */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x8000u) >> 16);
}

/* Writes four numbers, uniform from -max to max. */
static uint64_t random_numbers(float max) {
    uint64_t bits = next_random(), four = 0;
    for (int i = 0; i < 4; i++, bits >>= 16)
        four = four << 16 | to_bf16(max * ((float)(bits & 0xffff) / 32767.5f - 1.0f));
    return four;
}

static uint64_t next_word(const tensor *t) {
    switch (t->kind) {
    case CODES:
        return next_random();
    case NUMBERS:
        return random_numbers(t->value);
    case CONSTANT:
        return to_bf16(t->value) * 0x0001000100010001u;
    case EXPONENT:
        return (uint64_t)(127 + (int)t->value) * 0x0101010101010101u;
    }
    return 0;
}

static void write_tensor(FILE *file, const tensor *t) {
    enum { CHUNK = 1 << 16 };
    static uint64_t chunk[CHUNK / 8];
    for (int64_t left = tensor_bytes(t); left > 0; left -= CHUNK) {
        for (int i = 0; i < CHUNK / 8; i++)
            chunk[i] = next_word(t);
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        if (fwrite(chunk, 1, n, file) != n) fail("write", "model.safetensors");
    }
}

static FILE *create(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) fail("create", path);
    return file;
}

static void finish(FILE *file, const char *name) {
    if (fclose(file) != 0) fail("write", name);
}

static void write_weights(const char *dir) {
    FILE *file = create(dir, "model.safetensors");
    char *header = malloc(MAX_TENSORS * 256);
    if (header == NULL) fail("hold", "the header");
    size_t len = 0;
    int64_t offset = 0;
    for (int i = 0; i < n_tensors; i++) {
        const tensor *t = &tensors[i];
        char dims[64];
        if (t->stack > 0)
            snprintf(dims, sizeof dims, "%lld,%lld,%lld", (long long)t->stack, (long long)t->rows,
                     (long long)t->cols);
        else if (t->rows > 0)
            snprintf(dims, sizeof dims, "%lld,%lld", (long long)t->rows, (long long)t->cols);
        else
            snprintf(dims, sizeof dims, "%lld", (long long)t->cols);
        len += (size_t)sprintf(
            header + len, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
            i == 0 ? '{' : ',', t->name, stored[t->kind].dtype, dims, (long long)offset,
            (long long)(offset + tensor_bytes(t)));
        offset += tensor_bytes(t);
    }
    header[len++] = '}';
    while (len % 8 != 0)
        header[len++] = ' ';
    uint64_t length = len;
    if (fwrite(&length, 8, 1, file) != 1 || fwrite(header, 1, len, file) != len)
        fail("write", "model.safetensors");
    free(header);
    for (int i = 0; i < n_tensors; i++)
        write_tensor(file, &tensors[i]);
    finish(file, "model.safetensors");
    fprintf(stderr, "%lld MB of weights\n", (long long)(offset / 1000000));
}

static void write_config(const char *dir, const shape *s, const format *f) {
    FILE *file = create(dir, "config.json");
    fprintf(file,
            "{%s,\n \"hidden_size\": %d, \"num_hidden_layers\": %d,\n"
            " \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d,\n"
            " \"intermediate_size\": %d, \"vocab_size\": %d, \"tie_word_embeddings\": %s,\n"
            " \"torch_dtype\": \"bfloat16\"",
            s->family->config, s->hidden, s->layers, s->heads, s->kv_heads, s->head_dim, s->mlp,
            s->vocab, s->tied ? "true" : "false");
    if (s->config) fprintf(file, ",\n %s", s->config);
    if (f->bits)
        fprintf(file, ",\n \"quantization\": {\"group_size\": %d, \"bits\": %d, \"mode\": \"%s\"}",
                f->group, f->bits, f->mode);
    fprintf(file, "}\n");
    finish(file, "config.json");
}

static void copy(const char *from_dir, const char *to_dir, const char *name) {
    char path[4096];
    static char chunk[1 << 16];
    snprintf(path, sizeof path, "%s/%s", from_dir, name);
    FILE *from = fopen(path, "rb");
    if (from == NULL) fail("open", path);
    FILE *to = create(to_dir, name);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, from)) > 0;)
        if (fwrite(chunk, 1, n, to) != n) fail("write", name);
    fclose(from);
    finish(to, name);
}

static int usage(void) {
    fprintf(stderr, "usage: random_model SHAPE TOKENIZER_DIR OUT_DIR [FORMAT]\nshapes:");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        fprintf(stderr, " %s", shapes[i].name);
    fprintf(stderr, "\nformats:");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        fprintf(stderr, " %s", formats[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv) {
    const shape *s = NULL;
    const format *f = NULL;
    if (argc < 4 || argc > 5) return usage();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(argv[1], shapes[i].name) == 0) s = &shapes[i];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(argc > 4 ? argv[4] : "4bit", formats[i].name) == 0) f = &formats[i];
    if (s == NULL || f == NULL) return usage();
    if (mkdir(argv[3], 0777) != 0 && errno != EEXIST) fail("create", argv[3]);
    add_model(s, f);
    write_weights(argv[3]);
    write_config(argv[3], s, f);
    copy(argv[2], argv[3], "tokenizer.json");
    copy(argv[2], argv[3], "tokenizer_config.json");
    return 0;
}

/* Writes a model folder of a real shape with random 4-bit weights: something to time.
 *
 *     random_model SHAPE TOKENIZER_DIR OUT_DIR
 *
 * SHAPE is a row of the table below. The tokenizer files are copied from TOKENIZER_DIR, for the
 * command wants them; what the model says is noise. Weights are MLX's affine 4 bit, groups of 64,
 * bfloat16 scales and biases, chosen so that activations stay near 1 in size. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { GROUP = 64, BITS = 4, MAX_TENSORS = 2048, NAME = 96 };

typedef struct shape {
    const char *name;
    int layers, hidden, heads, kv_heads, head_dim, mlp, vocab, window, pattern;
} shape;

static const shape shapes[] = {
    {"gemma3-270m", 18, 640, 4, 1, 256, 2048, 262144, 512, 6},
    {"gemma3-1b", 26, 1152, 4, 1, 256, 6912, 262144, 512, 6},
    {"gemma3-4b", 34, 2560, 8, 4, 256, 10240, 262144, 1024, 6},
};

typedef enum kind { CODES, SCALES, BIASES, NORM } kind;

typedef struct tensor {
    char name[NAME];
    kind kind;
    int64_t rows, cols; /* of the file's elements; rows 0: a vector */
    int64_t inputs;     /* of the logical matrix: what a product sums over */
} tensor;

static tensor tensors[MAX_TENSORS];
static int n_tensors;

static void fail(const char *what, const char *name) {
    fprintf(stderr, "random_model: cannot %s %s: %s\n", what, name, strerror(errno));
    exit(1);
}

static void add(const char *prefix, const char *suffix, kind k, int64_t rows, int64_t cols,
                int64_t inputs) {
    tensor *t = &tensors[n_tensors++];
    snprintf(t->name, NAME, "%s%s", prefix, suffix);
    t->kind = k;
    t->rows = rows;
    t->cols = cols;
    t->inputs = inputs;
}

static void add_linear(const char *prefix, int64_t outputs, int64_t inputs) {
    add(prefix, ".weight", CODES, outputs, inputs * BITS / 32, inputs);
    add(prefix, ".scales", SCALES, outputs, inputs / GROUP, inputs);
    add(prefix, ".biases", BIASES, outputs, inputs / GROUP, inputs);
}

static void add_layer(const shape *s, int layer) {
    const struct {
        const char *name;
        int64_t outputs, inputs;
    } linears[] = {
        {"self_attn.q_proj", s->heads * s->head_dim, s->hidden},
        {"self_attn.k_proj", s->kv_heads * s->head_dim, s->hidden},
        {"self_attn.v_proj", s->kv_heads * s->head_dim, s->hidden},
        {"self_attn.o_proj", s->hidden, s->heads * s->head_dim},
        {"mlp.gate_proj", s->mlp, s->hidden},
        {"mlp.up_proj", s->mlp, s->hidden},
        {"mlp.down_proj", s->hidden, s->mlp},
    };
    const struct {
        const char *name;
        int64_t length;
    } norms[] = {
        {"input_layernorm", s->hidden},           {"post_attention_layernorm", s->hidden},
        {"pre_feedforward_layernorm", s->hidden}, {"post_feedforward_layernorm", s->hidden},
        {"self_attn.q_norm", s->head_dim},        {"self_attn.k_norm", s->head_dim},
    };
    char prefix[NAME / 2];
    char name[NAME - 16];
    snprintf(prefix, sizeof prefix, "model.layers.%d.", layer);
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, linears[i].name);
        add_linear(name, linears[i].outputs, linears[i].inputs);
    }
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, norms[i].name);
        add(name, ".weight", NORM, 0, norms[i].length, 0);
    }
}

static int64_t tensor_bytes(const tensor *t) {
    return (t->rows > 0 ? t->rows : 1) * t->cols * (t->kind == CODES ? 4 : 2);
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

/* Codes 0..15 are uniform with deviation 4.6, so these scales make weights of variance 1 / inputs. */
static void write_tensor(FILE *file, const tensor *t) {
    enum { CHUNK = 1 << 16 };
    static uint64_t chunk[CHUNK / 8];
    float scale = t->inputs > 0 ? 1.0f / (4.6f * sqrtf((float)t->inputs)) : 0;
    uint16_t constant = to_bf16(t->kind == SCALES ? scale : t->kind == BIASES ? -7.5f * scale : 0);
    for (int64_t left = tensor_bytes(t); left > 0; left -= CHUNK) {
        if (t->kind == CODES)
            for (int i = 0; i < CHUNK / 8; i++)
                chunk[i] = next_random();
        else
            for (int i = 0; i < CHUNK / 8; i++)
                chunk[i] = constant * 0x0001000100010001u;
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
        if (t->rows > 0)
            snprintf(dims, sizeof dims, "%lld,%lld", (long long)t->rows, (long long)t->cols);
        else
            snprintf(dims, sizeof dims, "%lld", (long long)t->cols);
        len += (size_t)sprintf(
            header + len, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
            i == 0 ? '{' : ',', t->name, t->kind == CODES ? "U32" : "BF16", dims, (long long)offset,
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

static void write_config(const char *dir, const shape *s) {
    FILE *file = create(dir, "config.json");
    fprintf(
        file,
        "{\"model_type\": \"gemma3_text\", \"hidden_size\": %d, \"num_hidden_layers\": %d,\n"
        " \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d,\n"
        " \"intermediate_size\": %d, \"vocab_size\": %d, \"sliding_window\": %d,\n"
        " \"sliding_window_pattern\": %d, \"query_pre_attn_scalar\": %d,\n"
        " \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, \"rope_local_base_freq\": 10000.0,\n"
        " \"max_position_embeddings\": 32768, \"tie_word_embeddings\": true,\n"
        " \"eos_token_id\": 1, \"torch_dtype\": \"bfloat16\",\n"
        " \"quantization\": {\"group_size\": %d, \"bits\": %d, \"mode\": \"affine\"}}\n",
        s->hidden, s->layers, s->heads, s->kv_heads, s->head_dim, s->mlp, s->vocab, s->window,
        s->pattern, s->head_dim, GROUP, BITS);
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

int main(int argc, char **argv) {
    const shape *s = NULL;
    for (size_t i = 0; argc == 4 && i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(argv[1], shapes[i].name) == 0) s = &shapes[i];
    if (s == NULL) {
        fprintf(stderr, "usage: random_model SHAPE TOKENIZER_DIR OUT_DIR\nshapes:");
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            fprintf(stderr, " %s", shapes[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    if (mkdir(argv[3], 0777) != 0 && errno != EEXIST) fail("create", argv[3]);
    add_linear("model.embed_tokens", s->vocab, s->hidden);
    for (int i = 0; i < s->layers; i++)
        add_layer(s, i);
    add("model.norm", ".weight", NORM, 0, s->hidden, 0);
    write_weights(argv[3]);
    write_config(argv[3], s);
    copy(argv[2], argv[3], "tokenizer.json");
    copy(argv[2], argv[3], "tokenizer_config.json");
    return 0;
}

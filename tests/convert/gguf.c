/* GGUF files converted: the logits are those that transformers computed from the decoded weights,
 * and the tokenizers encode as those that the files were made of. */
#include <mica/convert.h>

#include "base/buffer.h"
#include "convert/source.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/fixture.h"

#include <mica/tokenizer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dir, *made;

static int make_folder(void **state) {
    (void)state;
    dir = test_temp_dir();
    made = test_format("%s/model", dir);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(made);
    test_temp_dir_remove(dir);
    return 0;
}

static void convert(const char *family, const mica_convert_options *options,
                    mica_convert_result *result) {
    char *from = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), family);
    test_temp_dir_remove(dir);
    free(made);
    make_folder(NULL);
    if (mica_convert(from, made, options, result) != MICA_OK)
        fail_msg("%s: %s", family, mica_last_error());
    free(from);
}

/* ---- logits ---- */

static void check_logits(const char *family) {
    char *path = test_format("%s/gguf/%s/golden.safetensors", test_cases_dir(), family);
    mc_weights *golden;
    mica_device *device;
    mica_scope *s;
    mc_lm *lm;
    double worst = 0;
    assert_int_equal(mc_weights_open(path, NULL, &golden), MICA_OK);
    const mc_weight_tensor *ids = mc_weights_find(golden, "ids");
    const mc_weight_tensor *want = mc_weights_find(golden, "logits");
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    if (mc_lm_open(made, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    const int64_t shape[] = {1, ids->shape[0]}, vocab = lm->spec.vocab;
    size_t bytes = (size_t)(ids->shape[0] * vocab) * sizeof(float);
    float *got = malloc(bytes);
    mica_array y = mc_lm_forward(s, lm, mica_from_data(s, ids->data, MICA_I32, shape, 2),
                                 mica_i32(s, 0), NULL, MC_ALL_LOGITS);
    assert_non_null(got);
    assert_int_equal(want->shape[1], vocab);
    if (mica_read(y, got, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    for (int64_t row = 0; row < want->shape[0]; row++) /* every sixth is stored */
        for (int64_t k = 0; k < vocab; k++)
            worst = fmax(worst, fabs((double)got[row * 6 * vocab + k] -
                                     (double)((const float *)want->data)[row * vocab + k]));
    print_message("%s: within %.1e of transformers\n", family, worst);
    assert_true(worst < 1e-4);
    free(got);
    mica_scope_close(&s);
    mc_lm_close(&lm);
    mica_device_close(&device);
    mc_weights_close(&golden);
    free(path);
}

static const char *const families[] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3"};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Blocks are kept as codes; what is read of them is the same. */
static void test_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        mica_convert_result result = {.struct_bytes = sizeof result};
        convert(families[i], NULL, &result);
        assert_true(result.quantised >= 14);
        check_logits(families[i]);
    }
}

static void test_dequantised(void **state) {
    (void)state;
    const mica_convert_options options = {.dequantise = true, .dtype = "float32"};
    for (size_t i = 0; i < N_FAMILIES; i++) {
        convert(families[i], &options, NULL);
        check_logits(families[i]);
    }
}

/* ---- tokenizers ---- */

static void check_text(const mica_tokenizer *a, const mica_tokenizer *b, mc_str text) {
    int32_t *x, *y;
    size_t n, m;
    assert_int_equal(mica_tokenizer_encode(a, text.ptr, text.len, false, &x, &n), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(b, text.ptr, text.len, false, &y, &m), MICA_OK);
    if (n != m || memcmp(x, y, n * sizeof *x) != 0)
        fail_msg("'%.*s' is encoded differently", text.len < 60 ? (int)text.len : 60, text.ptr);
    mica_free(x);
    mica_free(y);
}

static void check_tokenizer(const char *family, const char *source, bool bos) {
    char *from = test_format("%s/tokenizers/small/%s", test_cases_dir(), source);
    char *path = test_format("%s/tokenizers/strings.json", test_cases_dir());
    mc_json_doc *doc = test_load_json(path);
    mica_tokenizer *a, *b;
    int32_t *ids;
    size_t n = 0, count;
    convert(family, NULL, NULL);
    assert_int_equal(mica_tokenizer_open(from, &a), MICA_OK);
    if (mica_tokenizer_open(made, &b) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_json root = mc_json_find(mc_json_root(doc), "strings");
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it); n++) {
        mc_str text;
        if (mc_json_get_str(it.value, &text)) check_text(a, b, text);
    }
    assert_true(n > 50);
    assert_int_equal(mica_tokenizer_encode(b, "a", 1, true, &ids, &count), MICA_OK);
    assert_int_equal(count, bos ? 2 : 1);
    mica_free(ids);
    mica_tokenizer_close(&a);
    mica_tokenizer_close(&b);
    mc_json_close(&doc);
    free(path);
    free(from);
}

static void test_tokenizers(void **state) {
    (void)state;
    check_tokenizer("llama", "llama-small", true);
    check_tokenizer("qwen3", "qwen-small", false);
    check_tokenizer("gemma3", "gemma-small", true);
}

/* ---- what is refused ---- */

/* A file's bytes, and in them where a text begins. */
static char *read_model(const char *family, const char *text, size_t *size, char **at) {
    char *source = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), family);
    size_t len = strlen(text);
    char *bytes = test_read_file(source, size);
    *at = NULL;
    for (size_t i = 0; !*at && i + len <= *size; i++)
        if (memcmp(bytes + i, text, len) == 0) *at = bytes + i;
    assert_non_null(*at);
    free(source);
    return bytes;
}

static void refuse_bytes(const char *bytes, size_t size, mica_status want, const char *says) {
    char *path = test_format("%s/x.gguf", dir);
    test_write_file(path, bytes, size);
    mica_status got = mica_convert(path, made, NULL, NULL);
    if (got != want) fail_msg("%s: %s", mica_status_name(got), mica_last_error());
    if (!strstr(mica_last_error(), says))
        fail_msg("'%s' does not say '%s'", mica_last_error(), says);
    assert_int_equal(test_count_entries(dir), 1);
    free(path);
}

/* Converts a file in which the first `from` is replaced by `to`, of the same length. */
static void refuse(const char *family, const char *from, const char *to, mica_status want,
                   const char *says) {
    size_t size;
    char *at, *bytes = read_model(family, from, &size, &at);
    memcpy(at, to, strlen(from));
    refuse_bytes(bytes, size, want, says);
    free(bytes);
}

/* Converts a file in which a key has another number, of 32 bits. */
static void refuse_number(const char *family, const char *key, uint32_t number, const char *says) {
    size_t size;
    char *at, *bytes = read_model(family, key, &size, &at);
    memcpy(at + strlen(key) + sizeof(uint32_t), &number, sizeof number); /* behind its type */
    refuse_bytes(bytes, size, MICA_EFORMAT, says);
    free(bytes);
}

static void test_refused(void **state) {
    (void)state;
    refuse("llama", "llama", "mamba", MICA_EUNSUPPORTED, "'mamba'");
    refuse("qwen3", "qwen3.block_count", "qwen3.black_count", MICA_EFORMAT, "block_count");
    refuse("llama", "llama-bpe", "chat4-bpe", MICA_EUNSUPPORTED, "'chat4-bpe'");
    refuse("qwen2", "blk.0.ffn_up", "blk.0.ffn_ax", MICA_EUNSUPPORTED, "blk.0.ffn_ax");
    refuse("qwen2", "blk.1.ffn_up", "blk.7.ffn_up", MICA_EUNSUPPORTED, "no tensor blk.7.ffn_up");
    refuse_number("qwen2", "qwen2.block_count", 3, "layers.2.self_attn.v_proj.bias");
    refuse("gemma3", "<0x41>", "<0x42>", MICA_EFORMAT, "are the same text");
    char *none = test_format("%s/none.gguf", dir);
    assert_int_equal(mica_convert(none, made, NULL, NULL), MICA_ENOENT);
    free(none);
}

/* A config of as many layers as the metadata says could fill the memory. */
static void test_large_sizes(void **state) {
    (void)state;
    refuse_number("gemma3", "gemma3.block_count", 1025, "gemma3.block_count is 1025");
    refuse_number("gemma2", "gemma2.block_count", UINT32_MAX, "block_count is 4294967295");
    refuse_number("llama", "llama.attention.head_count", 1u << 31, "head_count is 2147483648");
    refuse_number("llama", "llama.context_length", 1u << 31, "context_length is 2147483648");
    refuse_number("qwen2", "qwen2.feed_forward_length", 0, "qwen2.feed_forward_length is 0");
}

/* Writes a file with bytes inserted into others: a multiple of its alignment. */
static void write_inserted(const char *path, const char *bytes, size_t size, size_t at,
                           const char *more, size_t n) {
    char *longer = malloc(size + n);
    assert_non_null(longer);
    memcpy(longer, bytes, at);
    memcpy(longer + at, more, n);
    memcpy(longer + at + n, bytes + at, size - at);
    test_write_file(path, longer, size + n);
    free(longer);
}

/* One of several files has a part of the tensors only. */
static void test_split(void **state) {
    (void)state;
    char pairs[] = "\x0b\0\0\0\0\0\0\0split.count" /* u16 1 */
                   "\2\0\0\0"
                   "\1\0"
                   "\x0c\0\0\0\0\0\0\0general.name"
                   "\x08\0\0\0"
                   "\x07\0\0\0\0\0\0\0"
                   "example";
    enum { PAIRS = 16, END = 24, VALUE = 23 };
    char *from = test_format("%s/gguf/llama/model.gguf", test_cases_dir());
    char *path = test_format("%s/x.gguf", dir);
    size_t size;
    char *bytes = test_read_file(from, &size);
    bytes[PAIRS] = (char)(bytes[PAIRS] + 2);
    for (int files = 1; files <= 2; files++) {
        pairs[VALUE] = (char)files;
        write_inserted(path, bytes, size, END, pairs, sizeof pairs - 1);
        mica_status status = mica_convert(path, made, NULL, NULL);
        assert_int_equal(status, files == 1 ? MICA_OK : MICA_EUNSUPPORTED);
        test_temp_dir_remove(files == 1 ? made : NULL);
        if (files == 1) made = test_format("%s/again", dir);
    }
    assert_non_null(strstr(mica_last_error(), "one of 2 files"));
    assert_int_equal(test_count_entries(dir), 1);
    free(bytes);
    free(path);
    free(from);
}

/* Where text begins in a file. */
static size_t find_text(const char *bytes, const char *text) {
    size_t at = 0;
    while (memcmp(bytes + at, text, strlen(text)) != 0)
        at++;
    return at;
}

/* A bias of two axes, a number that was right in all else. */
static void test_flat_bias(void **state) {
    (void)state;
    static const char one[] = "\1\0\0\0\0\0\0", key[] = "\x0b\0\0\0\0\0\0\0general.abc\0\0\0\0\1";
    static const char name[] = "blk.0.attn_q.bias";
    char *from = test_format("%s/gguf/qwen2/model.gguf", test_cases_dir());
    char *path = test_format("%s/x.gguf", dir);
    size_t size;
    char *bytes = test_read_file(from, &size);
    bytes[16]++; /* a pair more: with the axis it is the alignment */
    write_inserted(path, bytes, size, 24, key, 24);
    free(bytes);
    bytes = test_read_file(path, &size);
    size_t at = find_text(bytes, name) + strlen(name);
    bytes[at] = 2;
    write_inserted(path, bytes, size, at + 12, one, 8);
    mica_status status = mica_convert(path, made, NULL, NULL);
    if (status != MICA_ESHAPE) fail_msg("%s: %s", mica_status_name(status), mica_last_error());
    assert_non_null(strstr(mica_last_error(), "attn_q.bias has another shape"));
    assert_int_equal(test_count_entries(dir), 1);
    free(bytes);
    free(path);
    free(from);
}

/* A tokenizer without its lists would give letter by letter, or nothing: it is refused by name. */
static void test_missing_lists(void **state) {
    (void)state;
    static const struct {
        const char *family, *key;
    } cases[] = {
        {"llama", "tokenizer.ggml.merges"},  {"qwen2", "tokenizer.ggml.merges"},
        {"gemma3", "tokenizer.ggml.scores"}, {"llama", "tokenizer.ggml.tokens"},
        {"gemma2", "tokenizer.ggml.tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *from = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), cases[i].family);
        char *path = test_format("%s/x.gguf", dir);
        size_t size;
        char *bytes = test_read_file(from, &size);
        bytes[find_text(bytes, cases[i].key)] = 'T'; /* another key */
        test_write_file(path, bytes, size);
        assert_int_equal(mica_convert(path, made, NULL, NULL), MICA_EFORMAT);
        if (!strstr(mica_last_error(), cases[i].key) ||
            !strstr(mica_last_error(), "is missing, or is no list of"))
            fail_msg("%s: %s", cases[i].key, mica_last_error());
        assert_int_equal(test_count_entries(dir), 1);
        free(bytes);
        free(path);
        free(from);
    }
}

/* Merges are sorted by scores: one that is no number has no place among them. */
static void test_no_score(void **state) {
    (void)state;
    static const char key[] = "tokenizer.ggml.scores";
    size_t size;
    const float none = NAN;
    char *at, *bytes = read_model("gemma3", key, &size, &at);
    memcpy(at + sizeof key - 1 + 16 + 5 * sizeof none, &none, sizeof none);
    refuse_bytes(bytes, size, MICA_EFORMAT, "that of token 5 is no number");
    free(bytes);
}

/* A list of chat templates without a default one makes a model without any. */
static void test_named_template(void **state) {
    (void)state;
    static const char pairs[] = "\x18\0\0\0\0\0\0\0tokenizer.chat_templates"
                                "\x09\0\0\0\x08\0\0\0\1\0\0\0\0\0\0\0"
                                "\x08\0\0\0\0\0\0\0tool_use"
                                "\x20\0\0\0\0\0\0\0tokenizer.chat_template.tool_use"
                                "\x08\0\0\0\x0c\0\0\0\0\0\0\0"
                                "a template: ";
    char *path = test_format("%s/x.gguf", dir), *at;
    size_t size;
    char *bytes = read_model("gemma3", "tokenizer.chat_template", &size, &at);
    *at = 'T'; /* another key */
    bytes[16] = (char)(bytes[16] + 2);
    write_inserted(path, bytes, size, 24, pairs, sizeof pairs - 1);
    free(bytes);
    if (mica_convert(path, made, NULL, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    path = test_format("%s/tokenizer_config.json", made);
    bytes = test_read_file(path, &size);
    assert_null(strstr(bytes, "chat_template"));
    free(bytes);
    free(path);
}

/* ---- joined tensors ---- */

static void add(mc_buffer *out, const void *bytes, size_t n) {
    static const char zeros[64];
    assert_true(mc_buffer_add(out, bytes ? bytes : zeros, n));
}

static void align(mc_buffer *out) {
    add(out, NULL, (32 - out->len % 32) % 32);
}

/* The tensors that a joined one has the rows of, behind the one that it is made of. */
static const mc_gguf_tensor *find_beside(const mc_gguf *g, const mc_gguf_tensor *t, char letter) {
    char name[64];
    snprintf(name, sizeof name, "%s", t->name);
    char *at = strstr(name, "attn_q.weight");
    if (!at) return NULL;
    at[5] = letter;
    return mc_gguf_find(g, name);
}

static void add_info(const mc_gguf *g, const mc_gguf_tensor *t, uint64_t more, uint64_t at,
                     mc_buffer *out) {
    char name[64];
    const mc_gguf_tensor *k = find_beside(g, t, 'k'), *v = find_beside(g, t, 'v');
    snprintf(name, sizeof name, "%s", t->name);
    if (k) snprintf(strstr(name, "attn_q"), 32, "attn_qkv.weight");
    uint64_t len = strlen(name);
    add(out, &len, sizeof len);
    add(out, name, len);
    add(out, &(uint32_t){(uint32_t)t->ndim}, 4);
    for (int i = t->ndim - 1; i >= 0; i--) {
        uint64_t n = (uint64_t)t->shape[i];
        if (k && i == 0) n += (uint64_t)(k->shape[0] + v->shape[0]) + more;
        add(out, &n, sizeof n);
    }
    add(out, &t->type->id, 4);
    add(out, &at, sizeof at);
}

static void add_data(const mc_gguf *g, const mc_gguf_tensor *t, uint64_t more, mc_buffer *out) {
    const mc_gguf_tensor *k = find_beside(g, t, 'k'), *v = find_beside(g, t, 'v');
    add(out, t->data, t->bytes);
    if (k) add(out, k->data, k->bytes);
    if (k) add(out, v->data, v->bytes);
    if (k) add(out, k->data, k->bytes / (size_t)k->shape[0] * more);
    align(out);
}

static bool is_beside(const mc_gguf_tensor *t) {
    return strstr(t->name, "attn_k.weight") || strstr(t->name, "attn_v.weight");
}

/* Writes a file whose queries, keys and values are rows of one tensor, and some rows more. */
static void join_file(const char *from, const char *to, uint64_t more) {
    size_t size;
    mc_gguf *g;
    mc_buffer out = {0}, data = {0};
    uint64_t n = 0;
    char *bytes = test_read_file(from, &size);
    assert_int_equal(mc_gguf_open(from, &g), MICA_OK);
    add(&out, bytes, find_text(bytes, mc_gguf_at(g, 0)->name) - 8);
    for (size_t i = 0; i < mc_gguf_count(g); i++) {
        const mc_gguf_tensor *t = mc_gguf_at(g, i);
        if (is_beside(t)) continue;
        add_info(g, t, more, data.len, &out);
        add_data(g, t, more, &data);
        n++;
    }
    memcpy(out.data + 8, &n, sizeof n);
    align(&out);
    add(&out, data.data, data.len);
    test_write_file(to, out.data, out.len);
    mc_buffer_deinit(&out);
    mc_buffer_deinit(&data);
    mc_gguf_close(&g);
    free(bytes);
}

/* Rows of a joined tensor are those of its slots, and no others. */
static void test_joined(void **state) {
    (void)state;
    char *from = test_format("%s/gguf/qwen3/model.gguf", test_cases_dir());
    char *path = test_format("%s/x.gguf", dir);
    join_file(from, path, 32);
    assert_int_equal(mica_convert(path, made, NULL, NULL), MICA_ESHAPE);
    assert_non_null(strstr(mica_last_error(), "attn_qkv.weight has another shape"));
    join_file(from, path, 0);
    if (mica_convert(path, made, NULL, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    check_logits("qwen3");
    free(path);
    free(from);
}

/* All blocks are looked at when a file is opened: that may be cancelled. */
static void test_cancelled(void **state) {
    (void)state;
    char *from = test_format("%s/gguf/llama/model.gguf", test_cases_dir());
    mc_source source;
    mica_cancel *cancel;
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    mica_cancel_set(cancel);
    assert_int_equal(mc_source_open_gguf(from, cancel, &source), MICA_ECANCELLED);
    mica_cancel_close(&cancel);
    free(from);
}

/* Copies a file, with so many bytes more in one of its tokens. */
static void lengthen_token(const char *from, const char *to, size_t token, size_t more) {
    static const char key[] = "tokenizer.ggml.tokens";
    size_t size, at = 0;
    uint64_t len;
    char *bytes = test_read_file(from, &size), *letters = malloc(more);
    while (memcmp(bytes + at, key, sizeof key - 1) != 0)
        at++;
    at += sizeof key - 1 + 16; /* the types, and the number of tokens */
    for (; token > 0; token--) {
        memcpy(&len, bytes + at, sizeof len);
        at += sizeof len + len;
    }
    memcpy(&len, bytes + at, sizeof len);
    len += more;
    memcpy(bytes + at, &len, sizeof len);
    at += sizeof len;
    memset(letters, 'a', more);
    write_inserted(to, bytes, size, at, letters, more);
    free(bytes);
    free(letters);
}

/* Finding merges takes the square of a token's length: without a limit a file stalls it. */
static void test_long_token(void **state) {
    (void)state;
    char *from = test_format("%s/gguf/gemma3/model.gguf", test_cases_dir());
    char *path = test_format("%s/x.gguf", dir);
    lengthen_token(from, path, 500, 512);
    assert_int_equal(mica_convert(path, made, NULL, NULL), MICA_OK);
    lengthen_token(from, path, 500, 2048);
    test_temp_dir_remove(made);
    made = test_format("%s/again", dir);
    assert_int_equal(mica_convert(path, made, NULL, NULL), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "token 500"));
    assert_int_equal(test_count_entries(dir), 1);
    free(path);
    free(from);
}

static bool convert_once(void *from) {
    mica_status status = mica_convert(from, made, NULL, NULL);
    if (status != MICA_OK) {
        assert_int_equal(status, MICA_ENOMEM);
        assert_int_equal(test_count_entries(dir), 0);
    }
    return status == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "gemma2"};
    for (size_t i = 0; i < 2; i++) {
        char *from = test_format("%s/gguf/%s/model.gguf", test_cases_dir(), names[i]);
        test_fail_each_allocation(convert_once, from);
        free(from);
        remove_folder(NULL);
        make_folder(NULL);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_kept),          TEST(test_dequantised),   TEST(test_tokenizers),
        TEST(test_refused),       TEST(test_out_of_memory), TEST(test_long_token),
        TEST(test_missing_lists), TEST(test_split),         TEST(test_flat_bias),
        TEST(test_large_sizes),   TEST(test_no_score),      TEST(test_named_template),
        TEST(test_joined),        TEST(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

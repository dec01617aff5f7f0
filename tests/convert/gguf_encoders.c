/* Encoders in GGUF files that say other things than mica writes: tests/task/encode.c compares
 * vectors and scores of what it does write. */
#include "base/filemap.h"
#include "convert/scratch.h"
#include "io/gguf.h"
#include "io/gguf_write.h"
#include "support/support.h"

#include <mica/convert.h>
#include <mica/tokenizer.h>

#include <stdlib.h>
#include <string.h>

/* A file's metadata, to which pairs are added, and its tensors. */
typedef struct copy {
    char *bytes;
    size_t size;
    mc_gguf *gguf;
    mc_gguf_pairs pairs;
    mc_gguf_tensor tensors[256];
    size_t count;
} copy;

static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* of GGUF's types */

static uint64_t read_int(const char *at, size_t bytes) {
    uint64_t n = 0;
    memcpy(&n, at, bytes);
    return n;
}

/* Behind a value of a type. */
static const char *skip_value(const char *at, uint32_t type) {
    if (type == 8) return at + 8 + read_int(at, 8);
    if (type != 9) return at + sizes[type];
    uint32_t inner = (uint32_t)read_int(at, 4);
    uint64_t n = read_int(at + 4, 8);
    at += 12;
    for (uint64_t i = 0; i < n; i++)
        at = skip_value(at, inner);
    return at;
}

static bool is_key(const char *key, size_t len, const char *name) {
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

/* Opens the GGUF file of an embedder, without one or two keys. */
static void open_without(const char *embedder, const char *one, const char *other, copy *c) {
    const mica_convert_options wide = {.dtype = "float32", .dequantise = true};
    char *from = test_format("%s/embedders/%s", test_fixtures_dir(), embedder);
    memset(c, 0, sizeof *c);
    if (mica_convert(from, file, &wide, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
    c->bytes = test_read_file(file, &c->size);
    assert_int_equal(mc_gguf_parse(c->bytes, c->size, "a copy", &c->gguf), MICA_OK);
    const char *at = c->bytes + 24;
    for (uint64_t i = 0, n = read_int(c->bytes + 16, 8); i < n; i++) {
        const char *begin = at;
        size_t len = (size_t)read_int(at, 8);
        at = skip_value(at + 8 + len + 4, (uint32_t)read_int(at + 8 + len, 4));
        if (is_key(begin + 8, len, one) || is_key(begin + 8, len, other)) continue;
        assert_true(mc_buffer_add(&c->pairs.bytes, begin, (size_t)(at - begin)));
        c->pairs.count++;
    }
    for (size_t i = 0; i < mc_gguf_count(c->gguf); i++)
        c->tensors[c->count++] = *mc_gguf_at(c->gguf, i);
    free(from);
}

static void open_copy(const char *embedder, const char *without, copy *c) {
    open_without(embedder, without, without, c);
}

/* Writes it as another file, and converts that. */
static mica_status close_copy(copy *c) {
    mc_gguf_writer *writer;
    char *changed = test_format("%s.changed.gguf", file);
    mica_status status = mc_gguf_writer_open(changed, &c->pairs, c->tensors, c->count, &writer);
    for (size_t i = 0; status == MICA_OK && i < c->count; i++) {
        status = mc_gguf_writer_next(writer, c->tensors[i].type);
        if (status == MICA_OK)
            status = mc_gguf_writer_add(writer, c->tensors[i].data, c->tensors[i].bytes);
    }
    assert_int_equal(mc_gguf_writer_close(&writer, status), MICA_OK);
    status = mica_convert(changed, made, NULL, NULL);
    mc_gguf_pairs_deinit(&c->pairs);
    mc_gguf_close(&c->gguf);
    free(c->bytes);
    free(changed);
    return status;
}

static bool is_made(const char *name) {
    char *path = test_format("%s/%s", made, name);
    bool is = mc_path_is_file(path);
    free(path);
    return is;
}

static bool says(const char *name, const char *text) {
    char *path = test_format("%s/%s", made, name), *bytes = test_read_file(path, NULL);
    bool is = strstr(bytes, text) != NULL;
    free(bytes);
    free(path);
    return is;
}

/* The rows of two tokens in the embedding, as the matrix of a reranker's answers. */
static void add_answers(copy *c, float *rows, int64_t yes, int64_t no) {
    const mc_gguf_tensor *embed = mc_gguf_find(c->gguf, "token_embd.weight");
    size_t n = (size_t)embed->shape[1];
    memcpy(rows, (const float *)embed->data + (size_t)yes * n, n * sizeof *rows);
    memcpy(rows + n, (const float *)embed->data + (size_t)no * n, n * sizeof *rows);
    c->tensors[c->count++] = (mc_gguf_tensor){.name = "cls.output.weight",
                                              .type = embed->type,
                                              .ndim = 2,
                                              .shape = {2, embed->shape[1]},
                                              .data = rows,
                                              .bytes = 2 * n * sizeof *rows};
}

enum { YES = 441, NO = 442 }; /* special tokens of the vocabulary, which has no such words */

static void put_tokens(copy *c) {
    static const char key[] = "tokenizer.ggml.tokens";
    assert_true(mc_gguf_begin_strs(&c->pairs, key, mc_gguf_array(c->gguf, key)));
    for (mc_gguf_iter it = mc_gguf_begin(c->gguf, key); mc_gguf_next(&it);)
        assert_true(mc_gguf_add_str(&c->pairs, it.index == YES  ? MC_STR("yes")
                                               : it.index == NO ? MC_STR("no")
                                                                : it.text));
}

/* Qwen 3 Reranker: the rows of two answers, by which its documents rank. Of a head that is not the
 * embedding there are no others. */
static void test_answers(void **state) {
    (void)state;
    float rows[2 * 64];
    copy c;
    for (int other = 0; other < 2; other++) {
        make_folder(NULL);
        open_without("qwen3_embedding", "qwen3.pooling_type", "tokenizer.ggml.tokens", &c);
        assert_true(mc_gguf_put_u32(&c.pairs, "qwen3.pooling_type", 4));
        put_tokens(&c);
        add_answers(&c, rows, YES, NO);
        if (other) rows[0] += 100;
        mica_status status = close_copy(&c);
        if (status != (other ? MICA_EUNSUPPORTED : MICA_OK)) fail_msg("%s", mica_last_error());
        if (!other) {
            assert_true(says("modules.json", "models.LogitScore"));
            assert_true(says("1_LogitScore/config.json", "\"true_token_id\": 441"));
            assert_true(says("1_LogitScore/config.json", "\"false_token_id\": 442"));
        }
        remove_folder(NULL);
    }
}

/* Without a kind of pooling there are no modules; with one that no model has it is refused. */
static void test_pooling(void **state) {
    (void)state;
    copy c;
    make_folder(NULL);
    open_copy("bert_minilm", "bert.pooling_type", &c);
    assert_int_equal(close_copy(&c), MICA_OK);
    assert_false(is_made("modules.json"));
    remove_folder(NULL);
    make_folder(NULL);
    open_copy("bert_minilm", "bert.pooling_type", &c);
    assert_true(mc_gguf_put_u32(&c.pairs, "bert.pooling_type", 9));
    assert_int_equal(close_copy(&c), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "pooling_type is 9"));
    remove_folder(NULL);
    make_folder(NULL);
    open_copy("bert_minilm", "bert.pooling_type", &c);
    assert_true(mc_gguf_put_u32(&c.pairs, "bert.pooling_type", 2));
    assert_int_equal(close_copy(&c), MICA_OK);
    assert_true(says("1_Pooling/config.json", "\"pooling_mode_cls_token\": true"));
    remove_folder(NULL);
}

/* What a file does not say of a text's length, its prompts and its norm. */
static void test_own_keys(void **state) {
    (void)state;
    copy c;
    make_folder(NULL);
    open_copy("nomic_bert", "sentence_transformers.max_seq_length", &c);
    assert_int_equal(close_copy(&c), MICA_OK);
    assert_true(says("sentence_bert_config.json", "\"max_seq_length\": 2048"));
    assert_true(says("config_sentence_transformers.json", "\"query\": \"search_query: \""));
    assert_true(says("modules.json", "models.Normalize"));
    remove_folder(NULL);
    make_folder(NULL);
    open_copy("nomic_bert", "sentence_transformers.prompt_names", &c);
    assert_true(mc_gguf_put_bool(&c.pairs, "sentence_transformers.normalize", false));
    assert_int_equal(close_copy(&c), MICA_OK);
    assert_false(says("config_sentence_transformers.json", "search_query"));
    assert_false(says("modules.json", "models.Normalize"));
    remove_folder(NULL);
}

/* The tokenizer `whitespace`: merges of the letters of words. The ids are llama.cpp's. */
static void test_words(void **state) {
    (void)state;
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"},
                             *const more[] = {"th", "the", "ca", "cat", ","},
                             *const merges[] = {"t h", "th e", "c a", "ca t"};
    static const int32_t want[] = {2, 32, 34, 35, 32, 12, 5, 24, 3};
    mica_tokenizer *tok;
    int32_t *ids;
    size_t n;
    copy c;
    make_folder(NULL);
    open_without("bert_minilm", "tokenizer.ggml.model", "tokenizer.ggml.tokens", &c);
    size_t count = mc_gguf_array(c.gguf, "tokenizer.ggml.tokens");
    assert_true(mc_gguf_put_str(&c.pairs, "tokenizer.ggml.model", MC_STR("whitespace")) &&
                mc_gguf_begin_strs(&c.pairs, "tokenizer.ggml.tokens", count));
    for (size_t i = 0; i < count; i++) {
        char *name = i < 5    ? test_format("%s", names[i])
                     : i < 31 ? test_format("%c", (char)('a' + (int)i - 5))
                     : i < 36 ? test_format("%s", more[i - 31])
                              : test_format("<%zu>", i);
        assert_true(mc_gguf_add_str(&c.pairs, mc_str_of(name)));
        free(name);
    }
    assert_true(mc_gguf_begin_strs(&c.pairs, "tokenizer.ggml.merges", 4));
    for (size_t i = 0; i < 4; i++)
        assert_true(mc_gguf_add_str(&c.pairs, mc_str_of(merges[i])));
    if (close_copy(&c) != MICA_OK) fail_msg("%s", mica_last_error());
    if (mica_tokenizer_open(made, &tok) != MICA_OK) fail_msg("%s", mica_last_error());
    const char text[] = "The cat,\n the  hat";
    assert_int_equal(mica_tokenizer_encode(tok, text, strlen(text), true, &ids, &n), MICA_OK);
    assert_int_equal(n, sizeof want / sizeof *want);
    assert_memory_equal(ids, want, sizeof want);
    mica_free(ids);
    mica_tokenizer_close(&tok);
    remove_folder(NULL);
}

/* A causal encoder, and another activation. */
static void test_constants(void **state) {
    (void)state;
    copy c;
    make_folder(NULL);
    open_copy("bert_minilm", "bert.attention.causal", &c);
    assert_true(mc_gguf_put_bool(&c.pairs, "bert.attention.causal", true));
    assert_int_equal(close_copy(&c), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "attention.causal is true"));
    remove_folder(NULL);
    make_folder(NULL);
    open_copy("modernbert_cls", "modern-bert.hidden_activation", &c);
    assert_true(mc_gguf_put_str(&c.pairs, "modern-bert.hidden_activation", MC_STR("swish7")));
    assert_int_equal(close_copy(&c), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "'swish7'"));
    remove_folder(NULL);
    make_folder(NULL);
    open_copy("modernbert_cls", "modern-bert.hidden_activation", &c);
    assert_true(mc_gguf_put_str(&c.pairs, "modern-bert.hidden_activation", MC_STR("silu")));
    assert_int_equal(close_copy(&c), MICA_OK);
    assert_true(says("config.json", "\"hidden_activation\": \"silu\""));
    remove_folder(NULL);
}

/* A head without numbers, of more labels than any memory has room for. */
static void test_empty_head(void **state) {
    (void)state;
    copy c;
    make_folder(NULL);
    open_copy("xlmr_reranker", "none", &c);
    size_t i = 0;
    while (i < c.count && strcmp(c.tensors[i].name, "cls.output.weight") != 0)
        i++;
    assert_true(i < c.count);
    c.tensors[i].shape[0] = INT64_C(1) << 50;
    c.tensors[i].shape[1] = 0;
    c.tensors[i].bytes = 0;
    assert_int_equal(close_copy(&c), MICA_ESHAPE);
    remove_folder(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),   cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_own_keys),  cmocka_unit_test(test_words),
        cmocka_unit_test(test_constants), cmocka_unit_test(test_empty_head),
    };
    return cmocka_run_group_tests_name("convert/gguf_encoders", tests, NULL, NULL);
}

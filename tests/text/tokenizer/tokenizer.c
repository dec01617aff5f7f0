/* Files that are no tokenizer, texts and ids that cannot be taken, and memory that runs out. */
#include "text/tokenizer/tokenizer.h"
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A whole tokenizer whose parts can be replaced. */
#define MODEL_REST                                                       \
    "\"unk_token\":\"<unk>\",\"byte_fallback\":false,\"fuse_unk\":true," \
    "\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"ab\":3},\"merges\":[[\"a\",\"b\"]]"
#define MODEL "\"model\":{\"type\":\"BPE\"," MODEL_REST "}"

#define SPLIT(pattern) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"}"

typedef struct bad_file {
    const char *json;
    mica_status status;
    const char *text; /* must be in the error's text */
} bad_file;

static const bad_file bad_files[] = {
    {"", MICA_EFORMAT, "bad.json"},
    {"{", MICA_EFORMAT, "bad.json"},
    {"[]", MICA_EFORMAT, "not a JSON object"},
    {"{}", MICA_EFORMAT, "model: missing"},
    {"{\"model\":5}", MICA_EFORMAT, "model: not an object"},
    {"{\"model\":{}}", MICA_EFORMAT, "model.vocab: missing"},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", MICA_EUNSUPPORTED, "'WordLevel'"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", MICA_EFORMAT, "not an array"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]],\"unk_id\":0}}", MICA_EFORMAT,
     "model.vocab[0]"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", MICA_EUNSUPPORTED, "model.unk_id"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}", MICA_EFORMAT,
     "model.unk_id"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", MICA_EFORMAT, "'[UNK]'"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA=\"}}",
     MICA_EFORMAT, "not base64"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAAAA\"}}",
     MICA_EFORMAT, "its size"},
    {"{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],\"sep\":9}}",
     MICA_EFORMAT, "'sep'"},
    {"{\"model\":{\"vocab\":[]}}", MICA_EFORMAT, "model.vocab: not an object"},
    {"{\"model\":{\"vocab\":{}}}", MICA_EFORMAT, "model.vocab: empty"},
    {"{\"model\":{\"vocab\":{\"a\":\"1\"}}}", MICA_EFORMAT, "'a' is not an integer"},
    {"{\"model\":{\"vocab\":{\"a\":1.5}}}", MICA_EFORMAT, "'a' is not an integer"},
    {"{\"model\":{\"vocab\":{\"a\":-1}}}", MICA_EFORMAT, "id -1 of 'a'"},
    {"{\"model\":{\"vocab\":{\"a\":4194304}}}", MICA_EFORMAT, "id 4194304 of 'a'"},
    {"{\"model\":{\"vocab\":{\"a\":99999999999}}}", MICA_EFORMAT, "id 99999999999 of 'a'"},
    {"{\"model\":{\"vocab\":{\"a\":1,\"b\":1}}}", MICA_EFORMAT, "'a' and 'b' have the same id 1"},
    {"{\"model\":{\"vocab\":{\"a\":1,\"a\":2}}}", MICA_EFORMAT, "'a' is listed twice"},
    {"{\"model\":{\"vocab\":{\"a\":1}}}", MICA_EFORMAT, "model.merges: missing"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":{}}}", MICA_EFORMAT, "model.merges: not an array"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[5]}}", MICA_EFORMAT, "model.merges[0]"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a\"]}}", MICA_EFORMAT, "model.merges[0]: 'a'"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[\"a a a\"]}}", MICA_EFORMAT, "model.merges[0]"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[[\"a\"]]}}", MICA_EFORMAT, "model.merges[0]"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[[\"a\",1]]}}", MICA_EFORMAT, "model.merges[0]"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[[\"a\",\"c\"]]}}", MICA_EFORMAT,
     "'c' is not in the vocabulary"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[[\"a\",\"a\"]]}}", MICA_EFORMAT,
     "'aa' is not in the vocabulary"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"unk_token\":\"u\"}}", MICA_EFORMAT,
     "unk_token: 'u'"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"unk_token\":7}}", MICA_EFORMAT, "unk_token"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"fuse_unk\":1}}", MICA_EFORMAT, "fuse_unk"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"dropout\":0.5}}", MICA_EUNSUPPORTED,
     "dropout"},
    {"{\"model\":{\"vocab\":{\"a\":1},\"merges\":[],\"end_of_word_suffix\":\"w\"}}",
     MICA_EUNSUPPORTED, "end_of_word_suffix"},
    {"{" MODEL ",\"added_tokens\":{}}", MICA_EFORMAT, "added_tokens: not an array"},
    {"{" MODEL ",\"added_tokens\":[{\"id\":1}]}", MICA_EFORMAT, "added_tokens[0].content"},
    {"{" MODEL ",\"added_tokens\":[{\"content\":\"x\"}]}", MICA_EFORMAT, "added_tokens[0].id"},
    {"{" MODEL ",\"added_tokens\":[{\"content\":\"x\",\"id\":-3}]}", MICA_EFORMAT, "of 'x'"},
    {"{" MODEL ",\"added_tokens\":[{\"content\":\"x\",\"id\":2}]}", MICA_EFORMAT,
     "'b' and 'x' have the same id 2"},
    {"{" MODEL ",\"added_tokens\":[{\"content\":\"x\",\"id\":9,\"special\":3}]}", MICA_EFORMAT,
     "'special'"},
    {"{" MODEL ",\"normalizer\":{}}", MICA_EFORMAT, "normalizer: a step without a type"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Nmt\"}}", MICA_EUNSUPPORTED,
     "normalizer: the type 'Nmt'"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Sequence\"}}", MICA_EFORMAT, "normalizer.normalizers"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[null]}}", MICA_EFORMAT,
     "a step is null"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"}}", MICA_EFORMAT,
     "'pattern'"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},"
     "\"content\":\"x\"}}",
     MICA_EFORMAT, "'pattern'"},
    {"{" MODEL ",\"normalizer\":{\"type\":\"Prepend\"}}", MICA_EFORMAT,
     "'prepend' is not a string"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", MICA_EUNSUPPORTED,
     "'UnicodeScripts'"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"\"}}",
     MICA_EFORMAT, "'delimiter'"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":1}}", MICA_EFORMAT,
     "'use_regex'"},
    {"{" MODEL ",\"pre_tokenizer\":" SPLIT("(") "}", MICA_EFORMAT, "cannot be compiled"},
    {"{" MODEL ",\"pre_tokenizer\":" SPLIT("[a&&b]") "}", MICA_EUNSUPPORTED, "&& in brackets"},
    {"{" MODEL ",\"pre_tokenizer\":" SPLIT("a{2}+") "}", MICA_EUNSUPPORTED, "+ behind {}"},
    {"{" MODEL ",\"pre_tokenizer\":" SPLIT("(*NO_JIT)a") "}", MICA_EUNSUPPORTED, "(*"},
    {"{" MODEL ",\"pre_tokenizer\":" SPLIT("\\\\p{Nothing}") "}", MICA_EFORMAT,
     "cannot be compiled"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":7},"
     "\"behavior\":\"Isolated\"}}",
     MICA_EFORMAT, "'pattern'"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
     "\"behavior\":\"Odd\"}}",
     MICA_EUNSUPPORTED, "'Odd'"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}}", MICA_EFORMAT,
     "'replacement'"},
    {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
     "\"prepend_scheme\":\"often\"}}",
     MICA_EFORMAT, "'prepend_scheme'"},
    {"{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}", MICA_EUNSUPPORTED, "decoder: the type 'CTC'"},
    {"{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":-1}}", MICA_EFORMAT,
     "'start'"},
    {"{" MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
     "{\"type\":\"ByteFallback\"}]}}",
     MICA_EUNSUPPORTED, "decoder: ByteFallback at this place"},
    {"{" MODEL ",\"added_tokens\":[{\"content\":\"x\",\"id\":9}],"
     "\"post_processor\":{\"type\":\"TemplateProcessing\","
     "\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}],"
     "\"special_tokens\":{\"s\":{\"ids\":[8]}}}}",
     MICA_EFORMAT, "an id of 's' names no token"},
    {"{" MODEL ",\"post_processor\":{\"type\":\"Unknown\"}}", MICA_EUNSUPPORTED,
     "post_processor: the type 'Unknown'"},
    {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\"}}", MICA_EFORMAT, "single"},
    {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}}",
     MICA_EUNSUPPORTED, "0 times"},
    {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\","
     "\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}]}}",
     MICA_EFORMAT, "no ids for 's'"},
    {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\","
     "\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}],"
     "\"special_tokens\":{\"s\":{\"ids\":[4]}}}}",
     MICA_EFORMAT, "an id of 's' names no token"},
};

static void test_bad_files(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        const bad_file *bad = &bad_files[i];
        mica_tokenizer *tok = NULL;
        mica_status status = mc_tokenizer_parse(bad->json, strlen(bad->json), "bad.json", &tok);
        if (status != bad->status || !strstr(mica_last_error(), bad->text) ||
            !strstr(mica_last_error(), "bad.json")) {
            fail_msg("%s: %s: %s", bad->json, mica_status_name(status), mica_last_error());
        }
        assert_null(tok);
    }
}

/* Every beginning of a file is an error, never a crash. */
static void test_truncated(void **state) {
    (void)state;
    char *path = test_format("%s/tokenizers/small/gemma-small/tokenizer.json", test_cases_dir());
    size_t size = 0;
    char *text = test_read_file(path, &size);
    for (size_t len = 0; len + 1 < size; len += len / 16 + 1) {
        mica_tokenizer *tok = NULL;
        assert_int_equal(mc_tokenizer_parse(text, len, path, &tok), MICA_EFORMAT);
        assert_null(tok);
    }
    free(text);
    free(path);
}

static void test_deep(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    static const char open[] = "{\"type\":\"Sequence\",\"normalizers\":[";
    mc_buffer text = {0};
    mica_tokenizer *tok = NULL;
    assert_true(mc_buffer_add_text(&text, "{" MODEL ",\"normalizer\":"));
    for (int i = 0; i < DEPTH; i++)
        assert_true(mc_buffer_add_text(&text, open));
    for (int i = 0; i < DEPTH; i++)
        assert_true(mc_buffer_add_text(&text, "]}"));
    assert_true(mc_buffer_add_text(&text, "}"));
    assert_int_equal(mc_tokenizer_parse(text.data, text.len, "deep.json", &tok), MICA_EFORMAT);
    mc_buffer_deinit(&text);
}

static void test_paths(void **state) {
    (void)state;
    mica_tokenizer *tok = NULL;
    char *dir = test_temp_dir();
    char *file = test_format("%s/tokenizer.json", dir);
    assert_int_equal(mica_tokenizer_open(file, &tok), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), file));
    assert_int_equal(mica_tokenizer_open(dir, &tok), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), file));
    assert_int_equal(mica_tokenizer_open(NULL, &tok), MICA_EINVAL);
    assert_int_equal(mica_tokenizer_open(dir, NULL), MICA_EINVAL);

    test_write_file(file, "{" MODEL "}", strlen("{" MODEL "}"));
    assert_int_equal(mica_tokenizer_open(dir, &tok), MICA_OK);
    assert_int_equal(mica_tokenizer_vocab_size(tok), 4);
    mica_tokenizer_close(&tok);
    assert_null(tok);
    mica_tokenizer_close(&tok);
    mica_tokenizer_close(NULL);
    free(file);
    test_temp_dir_remove(dir);
}

static bool open_once(void *arg) {
    mica_tokenizer *tok = NULL;
    mica_status status = mica_tokenizer_open(arg, &tok);
    assert_true(status == MICA_OK ? tok != NULL : status == MICA_ENOMEM && tok == NULL);
    mica_tokenizer_close(&tok);
    return status == MICA_OK;
}

/* Writes both files into dir and encodes "a" with what is put around it; wanted holds the ids. */
static void expect_around(const char *dir, const char *config, const char *post,
                          const int32_t *wanted, size_t n_wanted) {
    mica_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    char *file = test_format("%s/tokenizer.json", dir);
    char *json = test_format("{" MODEL "%s}", post);
    test_write_file(file, json, strlen(json));
    free(json);
    free(file);
    file = test_format("%s/tokenizer_config.json", dir);
    test_write_file(file, config, strlen(config));
    free(file);
    if (mica_tokenizer_open(dir, &tok) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_tokenizer_encode(tok, "a", 1, true, &ids, &n), MICA_OK);
    assert_int_equal(n, n_wanted);
    assert_memory_equal(ids, wanted, n * sizeof *ids);
    mica_free(ids);
    mica_tokenizer_close(&tok);
}

#define TEMPLATE                                                                           \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["                    \
    "{\"SpecialToken\":{\"id\":\"b\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":" \
    "{\"b\":{\"ids\":[2]}}}"

/* add_bos_token and add_eos_token add what the template has not, and take away what it has. */
static void test_config(void **state) {
    (void)state;
    static const int32_t ids[] = {2, 1, 3}; /* b a ab */
    char *dir = test_temp_dir();
    expect_around(dir, "{}", "", ids + 1, 1);
    expect_around(dir, "{}", TEMPLATE, ids, 2);
    expect_around(dir, "{\"bos_token\":\"b\",\"add_bos_token\":true}", "", ids, 2);
    expect_around(dir, "{\"bos_token\":\"b\",\"add_bos_token\":true}", TEMPLATE, ids, 2);
    expect_around(dir, "{\"bos_token\":{\"content\":\"b\"},\"add_bos_token\":false}", TEMPLATE,
                  ids + 1, 1);
    expect_around(dir, "{\"bos_token\":null,\"add_bos_token\":true}", "", ids + 1, 1);
    expect_around(dir, "{\"eos_token\":\"ab\",\"add_eos_token\":true}", TEMPLATE, ids, 3);
    expect_around(dir, "{\"eos_token\":\"ab\",\"add_eos_token\":false}", TEMPLATE, ids, 2);

    static const char config[] =
        "{\"bos_token\":\"a\",\"eos_token\":{\"content\":\"ab\"},"
        "\"pad_token\":\"none\",\"unk_token\":\"<unk>\",\"add_bos_token\":true}";
    mica_tokenizer *tok = NULL;
    char *file = test_format("%s/tokenizer_config.json", dir);
    test_write_file(file, config, strlen(config));
    assert_int_equal(mica_tokenizer_open(dir, &tok), MICA_OK);
    assert_int_equal(mica_tokenizer_bos(tok), 1);
    assert_int_equal(mica_tokenizer_eos(tok), 3);
    assert_int_equal(mica_tokenizer_pad(tok), -1);
    assert_int_equal(mica_tokenizer_unk(tok), 0);
    assert_int_equal(mica_tokenizer_bos(NULL), -1);
    mica_tokenizer_close(&tok);
    test_fail_each_allocation(open_once, dir);
    static const char *const bad[] = {"{", "{\"bos_token\":7}", "{\"add_bos_token\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_write_file(file, bad[i], strlen(bad[i]));
        assert_int_equal(mica_tokenizer_open(dir, &tok), MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), "tokenizer_config.json"));
        assert_null(tok);
    }
    free(file);
    test_temp_dir_remove(dir);
}

/* Special tokens that the vocabulary has, and tokens of added_tokens_decoder, are added ones: they
 * are found in texts, as they are, and special ones are left out of them. */
static void test_more_added(void **state) {
    (void)state;
    static const char config[] =
        "{\"eos_token\":\"ab\",\"added_tokens_decoder\":{"
        "\"9\":{\"content\":\"<x>\",\"special\":true},\"10\":{\"content\":\"<y>\"},"
        "\"1\":{\"content\":\"<taken>\"},\"z\":{\"content\":\"<z>\"},\"11\":{},\"12\":3,"
        "\"99999999999999999999\":{\"content\":\"<far>\"}}}";
    static const int32_t wanted[] = {9, 10, 3};
    char *dir = test_temp_dir(), *text, *json = test_format("{" MODEL "}");
    mica_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    test_write_below(dir, "tokenizer.json", json);
    test_write_below(dir, "tokenizer_config.json", config);
    if (mica_tokenizer_open(dir, &tok) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_tokenizer_encode(tok, "<x><y>ab", 8, false, &ids, &n), MICA_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(ids, wanted, sizeof wanted);
    assert_true(mica_tokenizer_is_special(tok, 9) && mica_tokenizer_is_special(tok, 3));
    assert_false(mica_tokenizer_is_special(tok, 10));
    assert_int_equal(mica_tokenizer_decode(tok, ids, n, true, &text, &n), MICA_OK);
    assert_string_equal(text, "<y>");
    assert_int_equal(mica_tokenizer_find(tok, "<taken>", 7), -1);
    assert_int_equal(mica_tokenizer_find(tok, "<far>", 5), -1);
    assert_int_equal(mica_tokenizer_vocab_size(tok), 11);
    mica_free(text);
    mica_free(ids);
    mica_tokenizer_close(&tok);
    test_fail_each_allocation(open_once, dir);
    free(json);
    test_temp_dir_remove(dir);
}

/* Tokens of added_tokens_decoder that are left out take no ids, however far theirs are: those whose
 * texts the vocabulary has, or that are there twice. */
static void test_far_added(void **state) {
    (void)state;
    static const char config[] = "{\"added_tokens_decoder\":{\"4000000\":{\"content\":\"ab\"},"
                                 "\"9\":{\"content\":\"<x>\"},\"4000001\":{\"content\":\"<x>\"},"
                                 "\"100000\":{\"content\":\"<y>\"}}}";
    char *dir = test_temp_dir(), *json = test_format("{" MODEL "}");
    mica_tokenizer *tok = NULL;
    test_write_below(dir, "tokenizer.json", json);
    test_write_below(dir, "tokenizer_config.json", config);
    if (mica_tokenizer_open(dir, &tok) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_tokenizer_find(tok, "ab", 2), 3);
    assert_int_equal(mica_tokenizer_find(tok, "<x>", 3), 9);
    assert_int_equal(mica_tokenizer_find(tok, "<y>", 3), 100000);
    assert_int_equal(mica_tokenizer_vocab_size(tok), 100001);
    for (int32_t id = 10; id < 100000; id++)
        assert_null(mica_tokenizer_token(tok, id, NULL));
    mica_tokenizer_close(&tok);
    test_fail_each_allocation(open_once, dir);
    test_write_below(dir, "tokenizer_config.json",
                     "{\"added_tokens_decoder\":{\"4000000\":{\"content\":\"<z>\"}}}");
    assert_int_equal(mica_tokenizer_open(dir, &tok), MICA_EFORMAT);
    if (!strstr(mica_last_error(), "4000000")) fail_msg("%s", mica_last_error());
    free(json);
    test_temp_dir_remove(dir);
}

/* An added token whose text is known keeps the id that it has. The sizes and the ids of "ab<x>a"
 * are those of Hugging Face's tokenizers 0.23.3 for the same files. */
static void test_known_added(void **state) {
    (void)state;
#define ADDED(id, text) "{\"id\":" id ",\"content\":\"" text "\",\"special\":true}"
    static const struct {
        const char *added;
        size_t size;
        int32_t x; /* 0: <x> is no token */
    } cases[] = {
        {ADDED("9", "ab"), 4, 0},
        {ADDED("4000000", "ab"), 4, 0},
        {ADDED("9", "ab") "," ADDED("4", "<x>"), 5, 4},
        {ADDED("4", "<x>") "," ADDED("9", "<x>"), 5, 4},
        {ADDED("4", "<x>") "," ADDED("4000000", "<x>") "," ADDED("5", "<y>"), 6, 4},
    };
#undef ADDED
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = test_format("{" MODEL ",\"added_tokens\":[%s]}", cases[i].added);
        const int32_t want[] = {3, cases[i].x, 1};
        mica_tokenizer *tok = NULL;
        int32_t *ids = NULL;
        size_t n = 0;
        if (mc_tokenizer_parse(json, strlen(json), "file", &tok) != MICA_OK)
            fail_msg("%s: %s", cases[i].added, mica_last_error());
        assert_int_equal(mica_tokenizer_vocab_size(tok), cases[i].size);
        assert_int_equal(mica_tokenizer_encode(tok, "ab<x>a", 6, false, &ids, &n), MICA_OK);
        assert_int_equal(n, 3); /* fused unknown tokens are one */
        assert_memory_equal(ids, want, sizeof want);
        mica_free(ids);
        mica_tokenizer_close(&tok);
        free(json);
    }
}

static mica_tokenizer *open_small(void) {
    char *path = test_format("%s/tokenizers/small/gemma-small", test_cases_dir());
    mica_tokenizer *tok = NULL;
    assert_int_equal(mica_tokenizer_open(path, &tok), MICA_OK);
    free(path);
    return tok;
}

static void test_tokens(void **state) {
    (void)state;
    mica_tokenizer *tok = open_small();
    size_t len = 0;
    assert_string_equal(mica_tokenizer_token(tok, 2, &len), "<bos>");
    assert_int_equal(len, 5);
    assert_true(mica_tokenizer_is_special(tok, 2));
    assert_int_equal(mica_tokenizer_find(tok, "<bos>", 5), 2);
    assert_int_equal(mica_tokenizer_find(tok, "<bos", 4), -1);
    assert_int_equal(mica_tokenizer_find(tok, "", 0), -1);
    assert_int_equal(mica_tokenizer_find(tok, NULL, 0), -1);
    for (int32_t id = 0; id < (int32_t)mica_tokenizer_vocab_size(tok); id++) {
        const char *text = mica_tokenizer_token(tok, id, &len);
        assert_int_equal(mica_tokenizer_find(tok, text, len), id);
    }
    assert_null(mica_tokenizer_token(tok, -1, &len));
    assert_int_equal(len, 0);
    assert_null(mica_tokenizer_token(tok, (int32_t)mica_tokenizer_vocab_size(tok), NULL));
    assert_false(mica_tokenizer_is_special(tok, -1));
    assert_false(mica_tokenizer_is_special(tok, 493));
    assert_int_equal(mica_tokenizer_vocab_size(NULL), 0);
    mica_tokenizer_close(&tok);
}

static void test_bad_text(void **state) {
    (void)state;
    static const char *const texts[] = {"ab\x80",     "ab\xFF",         "ab\xE2\x82",
                                        "ab\xC0\xAF", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80"};
    mica_tokenizer *tok = open_small();
    int32_t *ids = NULL;
    size_t n = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(mica_tokenizer_encode(tok, texts[i], strlen(texts[i]), true, &ids, &n),
                         MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), "not UTF-8 at byte 2 of"));
        assert_null(ids);
    }
    assert_int_equal(mica_tokenizer_encode(tok, NULL, 1, true, &ids, &n), MICA_EINVAL);
    assert_int_equal(mica_tokenizer_encode(NULL, "a", 1, true, &ids, &n), MICA_EINVAL);
    assert_int_equal(mica_tokenizer_encode(tok, "a", 1, true, NULL, &n), MICA_EINVAL);
    assert_int_equal(mica_tokenizer_encode(tok, "a", (size_t)1 << 31, true, &ids, &n), MICA_EINVAL);
    assert_int_equal(mica_tokenizer_encode(tok, NULL, 0, false, &ids, &n), MICA_OK);
    assert_int_equal(n, 0);
    assert_non_null(ids);
    mica_free(ids);
    mica_tokenizer_close(&tok);
}

static void test_bad_ids(void **state) {
    (void)state;
    mica_tokenizer *tok = open_small();
    mica_decoder_stream *stream = NULL;
    const int32_t beyond[] = {493, 1000000, INT32_MAX, 494}, negative[] = {493, -1};
    char *text = NULL;
    const char *piece;
    size_t len = 0;
    assert_int_equal(mica_tokenizer_decode(tok, beyond, 4, false, &text, &len), MICA_OK);
    assert_string_equal(text, "ab");
    mica_free(text);
    assert_int_equal(mica_tokenizer_decode(tok, negative, 2, false, &text, &len), MICA_EINVAL);
    assert_null(text);
    assert_int_equal(mica_tokenizer_decode(tok, NULL, 1, false, &text, &len), MICA_EINVAL);
    assert_int_equal(mica_tokenizer_decode(tok, NULL, 0, false, &text, &len), MICA_OK);
    assert_string_equal(text, "");
    mica_free(text);

    assert_int_equal(mica_decoder_stream_open(NULL, false, &stream), MICA_EINVAL);
    assert_int_equal(mica_decoder_stream_open(tok, false, &stream), MICA_OK);
    assert_int_equal(mica_decoder_stream_push(stream, -1, &piece, &len), MICA_EINVAL);
    assert_int_equal(mica_decoder_stream_push(stream, 1000000, &piece, &len), MICA_OK);
    assert_int_equal(len, 0);
    assert_int_equal(mica_decoder_stream_push(stream, 493, &piece, &len), MICA_OK);
    assert_string_equal(piece, "a");
    mica_decoder_stream_close(&stream);
    mica_decoder_stream_close(&stream);
    mica_decoder_stream_close(NULL);
    mica_tokenizer_close(&tok);
}

/* What is unfinished at the end becomes U+FFFD, byte by byte, and the stream begins anew. */
static void test_flush(void **state) {
    (void)state;
    mica_tokenizer *tok = open_small();
    mica_decoder_stream *stream = NULL;
    const char *piece;
    size_t len;
    int32_t e2 = mica_tokenizer_find(tok, "<0xE2>", 6), x82 = mica_tokenizer_find(tok, "<0x82>", 6);
    int32_t xac = mica_tokenizer_find(tok, "<0xAC>", 6);
    assert_int_equal(mica_decoder_stream_open(tok, true, &stream), MICA_OK);
    for (int round = 0; round < 2; round++) {
        const int32_t ids[] = {e2, x82, xac, e2, 2, x82};
        const char *const wanted[] = {"", "", "\xE2\x82\xAC", "", "", ""};
        for (int i = 0; i < 6; i++) {
            assert_int_equal(mica_decoder_stream_push(stream, ids[i], &piece, &len), MICA_OK);
            assert_string_equal(piece, wanted[i]);
        }
        assert_int_equal(mica_decoder_stream_flush(stream, &piece, &len), MICA_OK);
        assert_string_equal(piece, "\xEF\xBF\xBD\xEF\xBF\xBD");
        assert_int_equal(mica_decoder_stream_flush(stream, &piece, &len), MICA_OK);
        assert_int_equal(len, 0);
    }
    mica_decoder_stream_close(&stream);
    mica_tokenizer_close(&tok);
}

static bool encode_once(void *arg) {
    static const char text[] = "<bos>The quick  brown \xF0\x9F\x98\x80 fox\n\n<eos>and more text";
    int32_t *ids = NULL;
    size_t n = 0;
    mica_status status = mica_tokenizer_encode(arg, text, strlen(text), true, &ids, &n);
    assert_true(status == MICA_OK ? ids != NULL : status == MICA_ENOMEM && ids == NULL);
    mica_free(ids);
    return status == MICA_OK;
}

static const int32_t some_ids[] = {2, 493, 307, 251, 170, 163, 139, 493, 549, 271, 251, 170};

static bool encode_pair_once(void *tok) {
    int32_t *ids = NULL, *types = NULL;
    size_t n = 0;
    mica_status status = mica_tokenizer_encode_pair(tok, "a b", 3, "c", 1, &ids, &types, &n);
    mica_free(ids);
    mica_free(types);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static bool decode_once(void *arg) {
    char *text = NULL;
    size_t len = 0;
    mica_status status = mica_tokenizer_decode(arg, some_ids, 12, true, &text, &len);
    assert_true(status == MICA_OK ? text != NULL : status == MICA_ENOMEM && text == NULL);
    mica_free(text);
    return status == MICA_OK;
}

static bool stream_once(void *arg) {
    mica_decoder_stream *stream = NULL;
    const char *piece;
    size_t len;
    mica_status status = mica_decoder_stream_open(arg, false, &stream);
    for (int i = 0; status == MICA_OK && i < 12; i++) {
        status = mica_decoder_stream_push(stream, some_ids[i], &piece, &len);
    }
    if (status == MICA_OK) status = mica_decoder_stream_flush(stream, &piece, &len);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_decoder_stream_close(&stream);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    static const char *const variants[] = {
        "tests/text/tokenizer/variants/small/prepend",
        "tests/text/tokenizer/variants/small/metaspace-first-split",
        "tests/text/tokenizer/variants/small/split-sequence",
        "tests/text/tokenizer/variants/small/bytes-digits",
        "tests/text/tokenizer/variants/small/bytes-missing",
        "tests/text/tokenizer/variants/small/normal-nfc",
        "tests/text/tokenizer/variants/small/normal-replace-regex",
        "tests/text/tokenizer/variants/small/pre-class",
        "tests/text/tokenizer/variants/small/wordpiece-short",
        "tests/text/tokenizer/variants/small/unigram-bytes"};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        mica_tokenizer *tok = NULL;
        test_fail_each_allocation(open_once, (void *)(uintptr_t)variants[i]);
        assert_int_equal(mica_tokenizer_open(variants[i], &tok), MICA_OK);
        test_fail_each_allocation(encode_once, tok);
        test_fail_each_allocation(encode_pair_once, tok);
        test_fail_each_allocation(decode_once, tok);
        test_fail_each_allocation(stream_once, tok);
        mica_tokenizer_close(&tok);
    }
}

/* A pattern that backtracks without end is a status of the one text that it meets. */
static void test_too_much_work(void **state) {
    (void)state;
    static const char json[] = "{" MODEL ",\"pre_tokenizer\":" SPLIT("(a+)+$") "}";
    mica_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 'b'; /* all is tried before it is seen that the line goes on */
    assert_int_equal(mc_tokenizer_parse(json, strlen(json), "slow.json", &tok), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(tok, text, sizeof text, false, &ids, &n),
                     MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "too much work"));
    assert_null(ids);
    assert_int_equal(mica_tokenizer_encode(tok, "aab", 3, false, &ids, &n), MICA_OK);
    assert_int_equal(n, 2);
    mica_free(ids);
    mica_tokenizer_close(&tok);
}

static void test_many_steps(void **state) {
    (void)state;
    mc_buffer text = {0};
    mica_tokenizer *tok = NULL;
    assert_true(mc_buffer_add_text(&text, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\","
                                          "\"pretokenizers\":["));
    for (int i = 0; i < 100; i++)
        assert_true(mc_buffer_add_text(&text, "{\"type\":\"Whitespace\"},"));
    assert_true(mc_buffer_add_text(&text, "{\"type\":\"Whitespace\"}]}}"));
    assert_int_equal(mc_tokenizer_parse(text.data, text.len, "long.json", &tok), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "more than 32 steps"));
    mc_buffer_deinit(&text);
}

/* A long word of a few letters has many symbols, which the heap merges; a short one few. Words that
 * come again are remembered. All give what one merge at a time gives: ids of the pieces, joined. */
static void test_long_words(void **state) {
    (void)state;
    mica_tokenizer *tok = NULL;
    char *path = test_format("%s/tokenizers/small/qwen-small", test_cases_dir());
    assert_int_equal(mica_tokenizer_open(path, &tok), MICA_OK);
    free(path);
    for (size_t len = 1; len < 200; len++) {
        char text[2 * 200 + 1];
        int32_t *one = NULL, *two = NULL;
        size_t n_one = 0, n_two = 0;
        for (size_t i = 0; i < len; i++)
            text[i] = "thein"[i * i % 5];
        memcpy(text + len + 1, text, len);
        text[len] = '\n';
        assert_int_equal(mica_tokenizer_encode(tok, text, len, false, &one, &n_one), MICA_OK);
        assert_int_equal(mica_tokenizer_encode(tok, text, 2 * len + 1, false, &two, &n_two),
                         MICA_OK);
        assert_int_equal(n_two, 2 * n_one + 1);
        assert_memory_equal(one, two, n_one * sizeof *one);
        assert_memory_equal(one, two + n_one + 1, n_one * sizeof *one);
        mica_free(one);
        mica_free(two);
    }
    mica_tokenizer_close(&tok);
}

static void *encode_many(void *arg) {
    for (int i = 0; i < 50; i++) {
        if (!encode_once(arg) || !decode_once(arg) || !stream_once(arg)) return arg;
    }
    return NULL;
}

/* With patterns, compiled once, and words that are remembered by each call. */
static void share(mica_tokenizer *tok) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, tok), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    mica_tokenizer_close(&tok);
}

static void test_shared_between_threads(void **state) {
    (void)state;
    mica_tokenizer *tok = NULL;
    share(open_small());
    assert_int_equal(mica_tokenizer_open("tests/text/tokenizer/variants/small/pre-o200k", &tok),
                     MICA_OK);
    share(tok);
    assert_int_equal(mica_tokenizer_open("tests/text/tokenizer/variants/small/normal-nfc", &tok),
                     MICA_OK);
    share(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files),     cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_deep),          cmocka_unit_test(test_paths),
        cmocka_unit_test(test_tokens),        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_bad_ids),       cmocka_unit_test(test_flush),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_shared_between_threads),
        cmocka_unit_test(test_config),        cmocka_unit_test(test_more_added),
        cmocka_unit_test(test_far_added),     cmocka_unit_test(test_known_added),
        cmocka_unit_test(test_too_much_work), cmocka_unit_test(test_many_steps),
        cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every string of the goldens through every tokenizer: ids, texts and pieces as the `tokenizers`
 * library gives them. Real tokenizers are fetched by tools/fetch_tokenizers into a cache folder;
 * nothing else may be skipped. A table tells what was checked. */
#include "base/buffer.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "support/support.h"
#include "text/find.h"
#include "text/tokenizer/sha256.h"

#include <mica/tokenizer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct golden {
    const char *name;
    mica_tokenizer *tok;
    mc_json strings;
    size_t checked, failed;
} golden;

static void complain(golden *g, const char *what, long long index) {
    g->failed++;
    if (g->failed < 20) print_error("%s: %s %lld differs\n", g->name, what, index);
}

static bool same_ids(const int32_t *ids, size_t n, mc_json wanted) {
    if (mc_json_count(wanted) != n) return false;
    size_t i = 0;
    for (mc_json_iter it = mc_json_begin(wanted); mc_json_next(&it); i++) {
        int64_t id = -1;
        if (!mc_json_get_int(it.value, &id) || id != ids[i]) return false;
    }
    return true;
}

static bool same_long_ids(const int32_t *ids, size_t n, mc_json entry) {
    int64_t wanted_n = -1;
    mc_str wanted = {0};
    char hex[65];
    mc_json head = mc_json_find(entry, "head"), tail = mc_json_find(entry, "tail");
    size_t n_head = mc_json_count(head), n_tail = mc_json_count(tail);
    mc_json_get_int(mc_json_find(entry, "n"), &wanted_n);
    mc_json_get_str(mc_json_find(entry, "ids_sha256"), &wanted);
    if (wanted_n != (int64_t)n || n_head > n || n_tail > n) return false;
    uint8_t *bytes = malloc(4 * n);
    assert_non_null(bytes);
    for (size_t i = 0; i < 4 * n; i++) {
        bytes[i] = (uint8_t)((uint32_t)ids[i / 4] >> 8 * (i % 4));
    }
    test_sha256(bytes, 4 * n, hex);
    free(bytes);
    return same_ids(ids, n_head, head) && same_ids(ids + n - n_tail, n_tail, tail) &&
           mc_str_is(wanted, hex);
}

static bool same_encoding(const golden *g, mc_str text, mc_json entry, int32_t **ids, size_t *n) {
    int32_t *with = NULL;
    mc_json prefix = mc_json_find(entry, "prefix"), suffix = mc_json_find(entry, "suffix");
    size_t n_with = 0, n_prefix = mc_json_count(prefix), n_suffix = mc_json_count(suffix);
    assert_int_equal(mica_tokenizer_encode(g->tok, text.ptr, text.len, false, ids, n), MICA_OK);
    assert_int_equal(mica_tokenizer_encode(g->tok, text.ptr, text.len, true, &with, &n_with),
                     MICA_OK);
    mc_json wanted = mc_json_find(entry, "ids");
    bool same =
        mc_json_exists(wanted) ? same_ids(*ids, *n, wanted) : same_long_ids(*ids, *n, entry);
    same = same && n_with == n_prefix + *n + n_suffix && same_ids(with, n_prefix, prefix) &&
           memcmp(with + n_prefix, *ids, *n * sizeof **ids) == 0 &&
           same_ids(with + n_prefix + *n, n_suffix, suffix);
    mica_free(with);
    return same;
}

static bool same_decoding(const golden *g, const int32_t *ids, size_t n, bool skip, mc_str wanted) {
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(mica_tokenizer_decode(g->tok, ids, n, skip, &text, &len), MICA_OK);
    bool same = mc_str_eq((mc_str){text, len}, wanted) && text[len] == '\0';
    mica_free(text);
    return same;
}

/* Streams the ids. Pieces must be the wanted ones where there are any, valid UTF-8, and together
 * the decoded text unless that has U+FFFD. */
static bool same_stream(const golden *g, const int32_t *ids, size_t n, mc_json wanted,
                        mc_str decoded) {
    mica_decoder_stream *stream = NULL;
    mc_buffer all = {0};
    mc_json_iter it = mc_json_begin(wanted);
    bool same = true, ask = mc_json_exists(wanted);
    const char *piece;
    size_t len;
    if (ask && mc_json_count(wanted) != n) return false;
    assert_int_equal(mica_decoder_stream_open(g->tok, false, &stream), MICA_OK);
    for (size_t i = 0; i <= n; i++) {
        assert_int_equal(i < n ? mica_decoder_stream_push(stream, ids[i], &piece, &len)
                               : mica_decoder_stream_flush(stream, &piece, &len),
                         MICA_OK);
        same = same && mc_utf8_valid(piece, len) && piece[len] == '\0';
        assert_true(mc_buffer_add(&all, piece, len));
        mc_str text = {0};
        if (!ask || i == n) continue;
        same = same && mc_json_next(&it) && mc_json_get_str(it.value, &text) &&
               mc_str_eq(text, (mc_str){piece, len});
    }
    bool broken = mc_find(decoded, MC_STR("\xEF\xBF\xBD"), 0) < decoded.len;
    same = same && (broken || mc_str_eq((mc_str){all.data, all.len}, decoded));
    mc_buffer_deinit(&all);
    mica_decoder_stream_close(&stream);
    return same;
}

static mc_str string_at(mc_json strings, int64_t index) {
    mc_json_iter it = mc_json_begin(strings);
    mc_str text = {0};
    for (int64_t i = 0; i <= index; i++)
        assert_true(mc_json_next(&it));
    assert_true(mc_json_get_str(it.value, &text));
    return text;
}

static void check_case(golden *g, mc_json entry) {
    int64_t index = -1;
    int32_t *ids = NULL;
    size_t n = 0;
    assert_true(mc_json_get_int(mc_json_find(entry, "i"), &index));
    mc_str text = string_at(g->strings, index), decoded = text;
    mc_json_get_str(mc_json_find(entry, "decoded"), &decoded);
    mc_str skipping = decoded;
    mc_json_get_str(mc_json_find(entry, "decoded_skip_special"), &skipping);
    g->checked++;
    if (!same_encoding(g, text, entry, &ids, &n)) complain(g, "ids of string", index);
    if (!same_decoding(g, ids, n, false, decoded)) complain(g, "decoded string", index);
    if (!same_decoding(g, ids, n, true, skipping)) complain(g, "decoded_skip_special", index);
    if (!same_stream(g, ids, n, mc_json_find(entry, "pieces"), decoded)) {
        complain(g, "pieces of string", index);
    }
    mica_free(ids);
}

static void check_raw(golden *g, mc_json entry, long long index) {
    mc_json list = mc_json_find(entry, "ids");
    mc_str decoded = {0};
    size_t n = 0;
    int32_t *ids = malloc((mc_json_count(list) + 1) * sizeof *ids);
    assert_non_null(ids);
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); n++) {
        int64_t id = -1;
        assert_true(mc_json_get_int(it.value, &id));
        ids[n] = (int32_t)id;
    }
    assert_true(mc_json_get_str(mc_json_find(entry, "decoded"), &decoded));
    g->checked++;
    if (!same_decoding(g, ids, n, false, decoded)) complain(g, "decoded raw_ids", index);
    if (!same_stream(g, ids, n, (mc_json){0}, decoded)) complain(g, "pieces of raw_ids", index);
    free(ids);
}

/* Pairs of texts: ids and the type of each. */
static bool same_pair(const golden *g, mc_str a, mc_str b, mc_json entry) {
    int32_t *ids = NULL, *types = NULL;
    size_t n = 0;
    assert_int_equal(
        mica_tokenizer_encode_pair(g->tok, a.ptr, a.len, b.ptr, b.len, &ids, &types, &n), MICA_OK);
    bool same = same_ids(ids, n, mc_json_find(entry, "ids")) &&
                same_ids(types, n, mc_json_find(entry, "type_ids"));
    mica_free(ids);
    mica_free(types);
    return same;
}

static void check_pair(golden *g, mc_json entry, long long index) {
    int64_t a = -1, b = -1;
    assert_true(mc_json_get_int(mc_json_find(entry, "a"), &a));
    assert_true(mc_json_get_int(mc_json_find(entry, "b"), &b));
    g->checked++;
    if (!same_pair(g, string_at(g->strings, a), string_at(g->strings, b), entry))
        complain(g, "pair", index);
}

static void check_all(golden *g, mc_json root) {
    int64_t size = 0;
    if (mc_json_get_int(mc_json_find(root, "vocab_size_with_added"), &size) &&
        (size_t)size != mica_tokenizer_vocab_size(g->tok)) {
        complain(g, "vocabulary size, wanted", size);
    }
    mc_json cases = mc_json_find(root, "cases"), raw = mc_json_find(root, "raw_ids");
    long long index = 0, n_pair = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_find(root, "pairs")); mc_json_next(&it);)
        check_pair(g, it.value, n_pair++);
    for (mc_json_iter it = mc_json_begin(cases); mc_json_next(&it);)
        check_case(g, it.value);
    for (mc_json_iter it = mc_json_begin(raw); mc_json_next(&it);)
        check_raw(g, it.value, index++);
}

/* The path of a golden's tokenizer.json; NULL: not fetched. Freed with free. */
static char *tokenizer_path(const char *dir, mc_json root) {
    mc_str file, sum;
    if (mc_json_get_str(mc_json_find(root, "file"), &file)) {
        return test_format("%s/%.*s", dir, MC_STR_ARG(file));
    }
    if (!mc_json_get_str(mc_json_find(root, "sha256"), &sum)) return NULL;
    const char *cache = getenv("MICA_TEST_CACHE"), *home = getenv("HOME");
    char *path = cache ? test_format("%s/%.*s/tokenizer.json", cache, MC_STR_ARG(sum))
                       : test_format("%s/.cache/mica-tests/%.*s/tokenizer.json", home ? home : "",
                                     MC_STR_ARG(sum));
    if (access(path, R_OK) == 0) return path;
    free(path);
    return NULL;
}

typedef struct totals {
    size_t passed, skipped, failed, records;
} totals;

static void check_file(const char *dir, const char *name, mc_json strings, totals *t) {
    char *path = test_format("%s/%s", dir, name);
    mc_json_doc *doc = NULL;
    golden g = {.name = name, .strings = strings};
    doc = test_load_json(path);
    char *tokenizer = tokenizer_path(dir, mc_json_root(doc));
    mica_status status = tokenizer ? mica_tokenizer_open(tokenizer, &g.tok) : MICA_OK;
    if (!tokenizer) {
        print_message("%-36s    skipped: not fetched (tools/fetch_tokenizers)\n", name);
        t->skipped++;
    } else if (status != MICA_OK) {
        print_error("%-36s    failed: %s\n", name, mica_last_error());
        t->failed++;
    } else {
        check_all(&g, mc_json_root(doc));
        print_message("%-36s %8zu %8zu %12zu\n", name, mica_tokenizer_vocab_size(g.tok), g.checked,
                      g.failed);
        t->records += g.checked;
        *(g.failed ? &t->failed : &t->passed) += 1;
    }
    mica_tokenizer_close(&g.tok);
    mc_json_close(&doc);
    free(tokenizer);
    free(path);
}

static totals check_folder(const char *dir) {
    char *strings_path = test_format("%s/strings.json", dir);
    mc_json_doc *strings = NULL;
    totals t = {0};
    strings = test_load_json(strings_path);
    test_list files = test_list_files(dir, ".json");
    print_message("%-36s %8s %8s %12s\n", "golden", "ids", "records", "differences");
    for (size_t i = 0; i < files.count; i++) {
        if (strcmp(files.names[i], "strings.json") == 0) continue;
        check_file(dir, files.names[i], mc_json_find(mc_json_root(strings), "strings"), &t);
    }
    print_message("%s: %zu passed, %zu skipped, %zu failed; %zu records\n", dir, t.passed,
                  t.skipped, t.failed, t.records);
    test_list_free(&files);
    mc_json_close(&strings);
    free(strings_path);
    return t;
}

static void check_goldens(const char *folder) {
    char *dir = test_format("%s/%s", test_fixtures_dir(), folder);
    totals t = check_folder(dir);
    free(dir);
    assert_int_equal(t.failed, 0);
    assert_true(t.passed > 0);
}

static void test_goldens(void **state) {
    (void)state;
    check_goldens("tokenizers");
}

static void test_families(void **state) {
    (void)state;
    check_goldens("tokenizers/families");
}

/* Every kind of step, where the goldens have only those of the families' tokenizers. Made by
 * tools/make_tokenizer_variants.py. */
static void test_variants(void **state) {
    (void)state;
    totals t = check_folder("tests/text/tokenizer/variants");
    assert_int_equal(t.failed + t.skipped, 0);
    assert_true(t.passed > 0);
}

static void test_digest(void **state) {
    (void)state;
    char hex[65];
    test_sha256("abc", 3, hex); /* FIPS 180-4's own example */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Saved sessions continue as they would have; damaged files are refused. */
#define _XOPEN_SOURCE 700
#include "model/fixture.h"

#include "base/integer.h"
#include "session/session_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static model_fixture fixture; /* gemma3_text_f32: windows of 16 */
static char *folder;          /* folder of the files */

static int open_fixture(void **state) {
    (void)state;
    fixture_open("gemma3_text_f32", &fixture);
    folder = test_temp_dir();
    return 0;
}

static int close_fixture(void **state) {
    (void)state;
    fixture_close(&fixture);
    test_temp_dir_remove(folder);
    return 0;
}

static mc_session_model shared_of(const model_fixture *f, int64_t context) {
    return (mc_session_model){.lm = f->lm, .device = f->device, .context = context};
}

static mc_session *open_session(const mc_session_model *shared) {
    mc_session *session;
    if (mc_session_open(shared, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

/* Feeds n made-up tokens, the first with number `from`; all but the first one by one. */
static const float *feed(mc_session *session, int64_t from, int64_t n) {
    const float *logits = NULL;
    int32_t ids[700];
    int64_t first = n > 300 ? n - 300 : 1;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(((from + i) * 37 + 5) % session->model->lm->spec.vocab);
    assert_int_equal(mc_session_feed(session, ids, first, &logits), MICA_OK);
    for (int64_t i = first; i < n; i++)
        assert_int_equal(mc_session_feed(session, ids + i, 1, &logits), MICA_OK);
    return logits;
}

static char *save(mc_session *session) {
    char *path = test_format("%s/session", folder);
    if (mc_session_save(session, path) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(test_count_entries(folder), 1); /* no other file is left */
    return path;
}

static mc_session *load(const mc_session_model *shared, const char *path, int64_t chunk) {
    mc_session *session;
    if (mc_session_load(shared, path, chunk, &session) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return session;
}

/* ---- intact files ---- */

static void check_goes_on(const model_fixture *f, int64_t context, int64_t tokens) {
    mc_session_model shared = shared_of(f, context);
    mc_session *session = open_session(&shared);
    size_t bytes = (size_t)f->lm->spec.vocab * sizeof(float);
    if (tokens) feed(session, 0, tokens);
    char *path = save(session);
    mc_session *loaded = load(&shared, path, 7); /* another chunk size gives other room */
    assert_int_equal(mc_session_count(loaded), tokens);
    for (int i = 0; i < loaded->cache.plan.n; i++) {
        const mc_state *state = loaded->cache.states[i];
        if (state->span.max) assert_true(state->cap <= mc_max(state->count, state->span.max));
    }
    for (int64_t i = 0; i < 3; i++) {
        const float *want = feed(session, tokens + 7 * i, 7),
                    *got = feed(loaded, tokens + 7 * i, 7);
        if (test_device_is_gpu()) /* the order of its sums goes by the room that keys have */
            fixture_compare(got, want, bytes / sizeof *got, fixture_same(f), "%s: goes on",
                            f->name);
        else if (memcmp(got, want, bytes) != 0)
            fail_msg("%s: context %lld, %lld tokens: it goes on in another way", f->name,
                     (long long)context, (long long)tokens);
    }
    mc_session_close(&loaded);
    mc_session_close(&session);
    free(path);
}

static void check_same_bytes(const char *got_path, const char *want_path) {
    size_t got_size, want_size;
    char *got = test_read_file(got_path, &got_size), *want = test_read_file(want_path, &want_size);
    assert_int_equal(got_size, want_size);
    assert_memory_equal(got, want, want_size);
    free(got);
    free(want);
}

/* Files that were saved before states had kinds: the first token is 5, each later one 37 more.
 * Saved again, what was loaded is the same bytes. Their keys are sums of AVX2's kernels, and others
 * add up in another order, so how they go on differs by the golden's tolerance. */
static void check_old_file(const char *name, int64_t context, int64_t n) {
    model_fixture f;
    fixture_open(name, &f);
    char *path = test_format("%s/../../sessions/%s.session", f.path, name);
    mc_session_model shared = shared_of(&f, context);
    mc_session *session = open_session(&shared), *loaded = load(&shared, path, 0);
    assert_int_equal(mc_session_count(loaded), n);
    char *again = save(loaded);
    check_same_bytes(again, path);
    feed(session, 0, n);
    for (int64_t i = n; i < n + 5; i++)
        fixture_compare(feed(loaded, i, 1), feed(session, i, 1), (size_t)f.lm->spec.vocab,
                        f.tolerance, "%s: token %lld", path, (long long)i);
    mc_session_close(&loaded);
    mc_session_close(&session);
    free(again);
    free(path);
    fixture_close(&f);
}

static void test_old_files(void **state) {
    (void)state;
    check_old_file("gemma3_text_f32", 0, 20);
    check_old_file("llama_untied_f32", 8, 40);
}

static void check_family(const model_fixture *f) {
    check_goes_on(f, 0, 40);
    check_goes_on(f, 20, 30);
}

static void test_every_family(void **state) {
    (void)state;
    fixture_each(check_family);
    fixture_each_adapter(check_family);
}

static void test_emptied_windows(void **state) {
    (void)state;
    check_goes_on(&fixture, 0, 0);
    check_goes_on(&fixture, 0, 1);
    check_goes_on(&fixture, 24, 640);
    check_goes_on(&fixture, 1, 5);
    if (!test_device_keeps_order()) return; /* MLX takes its time */
    check_goes_on(&fixture, 0, 640);
    mc_lm_set_cache(fixture.lm, MICA_CACHE_BF16);
    check_goes_on(&fixture, 0, 5);
    check_goes_on(&fixture, 0, 640);
    check_goes_on(&fixture, 23, 640);
    mc_lm_set_cache(fixture.lm, MICA_CACHE_INT8);
    check_goes_on(&fixture, 0, 5);
    check_goes_on(&fixture, 0, 640);
    check_goes_on(&fixture, 23, 640);
    mc_lm_set_cache(fixture.lm, MICA_CACHE_F32);
}

/* A loaded session recognises a text of which the context has forgotten most tokens. */
static void test_forgotten_tokens(void **state) {
    (void)state;
    enum { N = 3000, MORE = 5 };
    static int32_t ids[N + MORE];
    mc_session_model shared = shared_of(&fixture, 24);
    mc_session *session;
    size_t bytes = (size_t)fixture.lm->spec.vocab * sizeof(float);
    const float *got, *want;
    assert_int_equal(mc_session_open(&shared, 100, &session), MICA_OK); /* what it keeps depends */
    for (int32_t i = 0; i < N + MORE; i++)
        ids[i] = i * 37 % (int32_t)fixture.lm->spec.vocab;
    for (int at = 0; at < N; at += 100)
        assert_int_equal(mc_session_feed(session, ids + at, 100, NULL), MICA_OK);
    char *path = save(session);
    mc_session *loaded = load(&shared, path, 7);
    assert_int_equal(mc_session_count(loaded), N);
    assert_int_equal(loaded->history.start, session->history.start);
    assert_true(loaded->history.start > N / 4);
    assert_int_equal(mc_session_reuse(loaded, ids, N + MORE), N);
    assert_int_equal(mc_session_reuse(session, ids, N + MORE), N);
    assert_int_equal(mc_session_feed(session, ids + N, MORE, &want), MICA_OK);
    assert_int_equal(mc_session_feed(loaded, ids + N, MORE, &got), MICA_OK);
    fixture_compare(got, want, bytes / sizeof *got, fixture_same(&fixture), "loaded");
    ids[0] ^= 1;
    assert_int_equal(mc_session_reuse(loaded, ids, N + MORE), 0);
    mc_session_close(&loaded);
    mc_session_close(&session);
    free(path);
}

/* ---- refused files ---- */

static void expect_refused(const mc_session_model *shared, const void *data, size_t size,
                           mica_status status, const char *word) {
    mc_session *session;
    mica_status got = mc_session_parse(shared, data, size, "file", 0, &session);
    if (got != status) fail_msg("%zu bytes: %s", size, mica_status_name(got));
    assert_null(session);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

/* Files cut at any length, with any bit of some bytes flipped, or with more bytes at the end. */
static void test_damaged(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared);
    size_t size;
    feed(session, 0, 20);
    char *path = save(session), *data = test_read_file(path, &size);
    for (size_t cut = 0; cut < size; cut += cut < 200 ? 1 : 61)
        expect_refused(&shared, data, cut, MICA_EFORMAT, "file: ");
    for (size_t i = 0; i < size; i += i < 200 ? 1 : 97) {
        data[i] = (char)(data[i] ^ (1 << i % 8));
        expect_refused(&shared, data, size, MICA_EFORMAT, "file: ");
        data[i] = (char)(data[i] ^ (1 << i % 8));
    }
    char *longer = calloc(1, size + 8);
    assert_non_null(longer);
    memcpy(longer, data, size);
    expect_refused(&shared, longer, size + 8, MICA_EFORMAT, "too large");
    free(longer);
    free(data);
    free(path);
    mc_session_close(&session);
}

/* Sets a word and fixes the checksum, so that the checksum does not show it. */
static void expect_word_refused(const mc_session_model *shared, const char *data, size_t size,
                                size_t word, int64_t value, mica_status status, const char *text) {
    char *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    memcpy(copy + 8 * word, &value, sizeof value);
    uint64_t sum = mc_session_checksum(copy, size - 8);
    memcpy(copy + size - 8, &sum, sizeof sum);
    expect_refused(shared, copy, size, status, text);
    free(copy);
}

static void test_absurd(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared);
    size_t size;
    feed(session, 0, 20);
    char *path = save(session), *data = test_read_file(path, &size);
    static const int64_t counts[] = {-1, 19, 21, INT64_MAX, INT64_MIN, (int64_t)1 << 31};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        expect_word_refused(&shared, data, size, 4, counts[i], MICA_EFORMAT, ""); /* tokens */
        expect_word_refused(&shared, data, size, 11 + 10, counts[i], MICA_EFORMAT, "");
    }
    expect_word_refused(&shared, data, size, 0, 0, MICA_EFORMAT, "not a session file");
    expect_word_refused(&shared, data, size, 1, 1, MICA_EFORMAT, "version");
    expect_word_refused(&shared, data, size, 2, 7, MICA_EINVAL, "another model");
    expect_word_refused(&shared, data, size, 8, MICA_BF16, MICA_EINVAL, "caches of f32");
    expect_word_refused(&shared, data, size, 3, 99, MICA_EINVAL, "a context of 99 tokens");
    expect_word_refused(&shared, data, size, 9, 1, MICA_EFORMAT, "1 of 20 tokens are forgotten");
    expect_word_refused(&shared, data, size, 9, -1, MICA_EFORMAT, "-1 of 20");
    expect_word_refused(&shared, data, size, 11, 1 << 20, MICA_EFORMAT, "token 0");
    free(data);
    free(path);
    mc_session_close(&session);
}

static void expect_other_model(const char *path, const mc_session_model *shared) {
    mc_session *session;
    assert_int_equal(mc_session_load(shared, path, 0, &session), MICA_EINVAL);
    assert_null(session);
    assert_non_null(strstr(mica_last_error(), "another model"));
}

static void test_other_models(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared);
    feed(session, 0, 20);
    char *path = save(session);
    mc_lm lm = *fixture.lm; /* one number differs */
    lm.spec.norm_eps *= 2.0;
    shared.lm = &lm;
    expect_other_model(path, &shared);
    lm.spec = fixture.lm->spec;
    lm.spec.ropes[2] = lm.spec.ropes[0]; /* RoPEs beyond two */
    expect_other_model(path, &shared);
    model_fixture other;
    fixture_open("gemma3_4b_defaults", &other);
    shared = shared_of(&other, 0);
    expect_other_model(path, &shared);
    fixture_close(&other);
    mc_session_close(&session);
    free(path);
}

static char *adapted_path;
static size_t adapted;

/* A model with an adapter has another fingerprint than without it, and than with another
 * adapter. */
static void check_adapter(const model_fixture *f) {
    mc_session_model shared = shared_of(f, 0);
    if (adapted_path) expect_other_model(adapted_path, &shared);
    mc_session *session = open_session(&shared);
    feed(session, 0, 20);
    free(adapted_path);
    adapted_path = save(session);
    mc_session_close(&session);
    adapted++;
}

static void test_adapters(void **state) {
    (void)state;
    fixture_each_adapter(check_adapter);
    assert_true(adapted > 1);
    model_fixture base;
    fixture_open("qwen3_tied", &base);
    mc_session_model shared = shared_of(&base, 0);
    expect_other_model(adapted_path, &shared);
    fixture_close(&base);
    free(adapted_path);
}

/* ---- the file system ---- */

static void test_paths(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared), *loaded;
    feed(session, 0, 5);
    char *path = test_format("%s/none/session", folder);
    assert_int_equal(mc_session_save(session, path), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "none/session"));
    assert_int_equal(mc_session_load(&shared, path, 0, &loaded), MICA_ENOENT);
    assert_null(loaded);
    assert_int_not_equal(mc_session_save(session, folder), MICA_OK); /* the path is a folder */
    free(path);
    path = save(session); /* no other file is left, and the session's is replaced */
    feed(session, 5, 3);
    free(path);
    path = save(session);
    assert_int_equal(mc_session_load(&shared, path, -1, &loaded), MICA_EINVAL);
    loaded = load(&shared, path, 0);
    assert_int_equal(mc_session_count(loaded), 8);
    mc_session_close(&loaded);
    mc_session_close(&session);
    free(path);
}

/* A sparse file, larger than a session of its tokens can be: it is not read to the end. */
static void test_too_large(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared), *loaded;
    feed(session, 0, 5);
    char *path = save(session);
    assert_int_equal(truncate(path, (off_t)3 << 30), 0);
    assert_int_equal(mc_session_load(&shared, path, 0, &loaded), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "a session of 5 tokens at most"));
    free(path);
    mc_session_close(&session);
}

/* A path that is not a regular file is written to or refused, and never replaced. */
static void test_no_file(void **state) {
    (void)state;
    if (!test_has_links()) skip();
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared);
    char *link = test_format("%s/link", folder), *path = test_format("%s/session", folder);
    struct stat info;
    feed(session, 0, 5);
    assert_int_equal(symlink("session", link), 0);
    assert_int_equal(mc_session_save(session, link), MICA_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    remove(link);
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(mc_session_save(session, link), MICA_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    remove(link);
    assert_true(test_make_fifo(link));
    assert_int_equal(mc_session_save(session, link), MICA_EIO);
    remove(link);
    free(link);
    free(path);
    mc_session_close(&session);
}

/* A full disk, simulated by a limit on file sizes: the earlier file is still there, and no
 * other. */
static void test_full_disk(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared), *loaded;
    feed(session, 0, 5);
    char *path = save(session);
    feed(session, 5, 3);
    bool limited = test_limit_file_bytes(100);
    mica_status status = mc_session_save(session, path);
    if (limited) test_limit_file_bytes(0);
    assert_int_equal(status, limited ? MICA_EIO : MICA_OK);
    if (limited) assert_non_null(strstr(mica_last_error(), "cannot write"));
    assert_int_equal(test_count_entries(folder), 1);
    loaded = load(&shared, path, 0);
    assert_int_equal(mc_session_count(loaded), limited ? 5 : 8);
    mc_session_close(&loaded);
    mc_session_close(&session);
    free(path);
}

/* ---- memory ---- */

static bool save_and_load(void *arg) {
    mc_session *session = arg, *loaded = NULL;
    char path[600];
    assert_true(test_count_entries(folder) <= 1); /* a failed save leaves no file */
    snprintf(path, sizeof path, "%s/session", folder);
    mica_device_clear_cache(fixture.device);
    mica_status status = mc_session_save(session, path);
    if (status == MICA_OK) status = mc_session_load(session->model, path, 0, &loaded);
    mc_session_close(&loaded);
    assert_int_equal(mc_session_count(session), 20);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    mc_session_model shared = shared_of(&fixture, 0);
    mc_session *session = open_session(&shared), *fresh = open_session(&shared);
    feed(session, 0, 20);
    test_fail_each_allocation(save_and_load, session);
    feed(fresh, 0, 20);
    const float *got = feed(session, 20, 5), *want = feed(fresh, 20, 5);
    assert_memory_equal(got, want, (size_t)fixture.lm->spec.vocab * sizeof *got);
    mc_session_close(&session);
    mc_session_close(&fresh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_files),       cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_emptied_windows), cmocka_unit_test(test_forgotten_tokens),
        cmocka_unit_test(test_damaged),         cmocka_unit_test(test_absurd),
        cmocka_unit_test(test_other_models),    cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_paths),           cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_no_file),         cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("session/session_file", tests, open_fixture, close_fixture);
}

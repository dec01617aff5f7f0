/* mica_pull against a mock hub: what comes, what is asked, what is refused. */
#define _POSIX_C_SOURCE 200809L

#include "hub_test.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what comes ---- */

static void test_cache(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *folder, *expected = hub_test_path(&t, "snapshots/" MOCK_COMMIT), link[128] = "";
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    assert_string_equal(folder, expected);
    assert_int_equal(test_count_entries(folder), 3); /* no README.md, no original/ */
    char *config = test_format("%s/config.json", folder), *main = hub_test_path(&t, "refs/main");
    if (test_has_links()) {
        assert_true(readlink(config, link, sizeof link - 1) > 0);
        assert_memory_equal(link, "../../blobs/", 12);
    }
    char *commit = test_read_file(main, NULL);
    assert_string_equal(commit, MOCK_COMMIT);
    hub_test_check_model(&t, folder);
    int bodies = mock_hub_bodies(t.hub);
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    assert_int_equal(mock_hub_bodies(t.hub), bodies); /* nothing is downloaded again */
    hub_test_check_model(&t, folder);
    free(expected);
    free(config);
    free(main);
    free(commit);
    hub_test_close(&t);
}

/* Of a file that xet stores the hub says where its chunks are. It also redirects to the whole file,
 * which is what mica reads. */
static void test_xet(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *folder;
    hub_test_fail(&t, "xet model.safetensors\ncut model.safetensors 70000 1\n");
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    hub_test_check_model(&t, folder);
    assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
    assert_int_equal(mock_hub_xet(t.hub), 2); /* at the beginning, and where it went on */
    hub_test_close(&t);
}

/* The folders of an embedder's modules come, and no others. */
static void test_modules(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *folder;
    test_write_below(t.root, "org/model/modules.json", "[]");
    test_write_below(t.root, "org/model/1_Pooling/config.json", "{}");
    test_write_below(t.root, "org/model/2_Dense/model.safetensors", "dense");
    test_write_below(t.root, "org/model/2_Dense/pytorch_model.bin", "dense");
    test_write_below(t.root, "org/model/2_Dense/old/config.json", "{}");
    test_write_below(t.root, "org/model/4_bit/config.json", "{}");
    test_write_below(t.root, "org/model/onnx/config.json", "{}");
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    hub_test_check_file(&t, folder, "1_Pooling/config.json");
    hub_test_check_file(&t, folder, "2_Dense/model.safetensors");
    assert_int_equal(test_count_entries(folder), 6);
    char *dense = test_format("%s/2_Dense", folder);
    assert_int_equal(test_count_entries(dense), 1);
    free(dense);
    mica_free(folder);
    hub_test_close(&t);
}

static void test_include(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    static const char *const patterns[] = {"*.md", "original/*"};
    mica_pull_options options = hub_test_options(&t);
    options.include = patterns;
    options.include_count = 2;
    char *folder;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    hub_test_check_file(&t, folder, "README.md");
    hub_test_check_file(&t, folder, "original/weights.safetensors");
    assert_int_equal(test_count_entries(folder), 2);
    mica_free(folder);
    options.include_count = 1;
    options.include = (const char *const[]){"*.gguf"};
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    assert_null(folder);
    hub_test_close(&t);
}

static void test_revisions(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    mica_pull_options options = hub_test_options(&t);
    char *folder, *again;
    options.revision = "v1";
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    options.offline = true;
    assert_int_equal(mica_pull("org/model", &options, &again), MICA_OK);
    assert_string_equal(folder, again);
    mica_free(again);
    options.revision = MOCK_COMMIT;
    assert_int_equal(mica_pull("org/model", &options, &again), MICA_OK);
    mica_free(again);
    options.revision = "main"; /* was never asked for */
    assert_int_equal(mica_pull("org/model", &options, &again), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "offline"));
    options.offline = false;
    options.revision = "v2";
    assert_int_equal(mica_pull("org/model", &options, &again), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "no such revision"));
    mica_free(folder);
    hub_test_close(&t);
}

static void test_environment(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *folder, *cached = test_format("%s/home/hub/models--org--model", t.folder);
    char *home = test_format("%s/home", t.folder);
    setenv("HF_ENDPOINT", t.endpoint, 1);
    setenv("HF_HOME", home, 1);
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_int_equal(mica_pull("org/model", NULL, &folder), MICA_ENOENT);
    unsetenv("HF_HUB_OFFLINE");
    assert_int_equal(mica_pull("org/model", NULL, &folder), MICA_OK);
    assert_memory_equal(folder, cached, strlen(cached));
    mica_free(folder);
    free(cached);
    free(home);
    hub_test_close(&t);
    unsetenv("HF_ENDPOINT");
    unsetenv("HF_HOME");
}

/* The token goes to the hub, and not to the content network: hub_test_close checks that. */
static void test_token(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    mica_pull_options options = hub_test_options(&t);
    char *folder;
    test_write_below(t.root, "org/model/.token", "hf_secret");
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "HF_TOKEN"));
    options.token = NULL;
    setenv("HF_TOKEN", "hf_wrong", 1);
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    assert_null(strstr(mica_last_error(), "hf_wrong"));
    unsetenv("HF_TOKEN");
    test_write_below(t.folder, ".cache/huggingface/token", "hf_secret\n");
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    hub_test_check_model(&t, folder);
    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "yes", 1); /* only a token that the caller gives */
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    setenv("HF_TOKEN", "hf_secret", 1);
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    options.token = "hf_secret";
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
    unsetenv("HF_TOKEN");
    hub_test_check_model(&t, folder);
    options.token = "two\r\nlines";
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_EINVAL);
    hub_test_close(&t);
}

/* ---- what is asked ---- */

typedef struct answer {
    bool yes;
    int calls;
    uint64_t files, bytes, download_files, download_bytes;
} answer;

static bool confirm(void *user, const mica_pull_plan *plan) {
    answer *a = user;
    a->calls++;
    a->files = plan->files;
    a->bytes = plan->bytes;
    a->download_files = plan->download_files;
    a->download_bytes = plan->download_bytes;
    assert_string_equal(plan->name, "org/model");
    assert_string_equal(plan->commit, MOCK_COMMIT);
    return a->yes;
}

static void test_confirm(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    answer a = {.yes = false};
    mica_pull_options options = hub_test_options(&t);
    char *folder;
    options.confirm = confirm;
    options.confirm_user = &a;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ECANCELLED);
    assert_int_equal(mock_hub_bodies(t.hub), 0);
    assert_int_equal(a.files, 3);
    assert_int_equal(a.bytes, a.download_bytes);
    assert_int_equal(a.bytes, 300000 + 23 + 2);
    a.yes = true;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    mica_free(folder);
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    assert_int_equal(a.calls, 3);
    assert_int_equal(a.download_files, 0);
    assert_int_equal(a.download_bytes, 0);
    hub_test_check_model(&t, folder);
    hub_test_close(&t);
}

/* A blob that several files have is downloaded once. */
static void test_confirm_twins(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    answer a = {.yes = true};
    mica_pull_options options = hub_test_options(&t);
    char *folder;
    options.confirm = confirm;
    options.confirm_user = &a;
    test_write_below(t.root, "org/model/again.json", "{\"model_type\": \"llama\"}");
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    assert_int_equal(a.files, 4);
    assert_int_equal(a.bytes, 300000 + 23 + 2 + 23);
    assert_int_equal(a.download_files, 3);
    assert_int_equal(a.download_bytes, 300000 + 23 + 2);
    assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
    hub_test_check_model(&t, folder);
    hub_test_close(&t);
}

/* A long list comes page by page; a content that many files have is downloaded once, and a process
 * needs few descriptors for it. */
static void test_many(void **state) {
    (void)state;
    enum { FILES = 50000 };
    hub_test t = hub_test_open();
    struct rlimit before, few;
    answer a = {.yes = true};
    mica_pull_options options = hub_test_options(&t);
    char *folder;
    options.confirm = confirm;
    options.confirm_user = &a;
    options.include = (const char *const[]){"many/*"};
    options.include_count = 1;
    hub_test_fail(&t, "many * 50000\n");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 100; /* mock hub's own among them */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    mica_status status = mica_pull("org/model", &options, &folder);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(a.files, FILES);
    assert_int_equal(a.download_files, 100);
    assert_int_equal(mock_hub_bodies(t.hub), 100);
    char *many = test_format("%s/many", folder), *last = test_format("%s/49999.txt", many);
    char *text = test_read_file(last, NULL);
    assert_int_equal(test_count_entries(many), FILES);
    assert_string_equal(text, "99");
    free(text);
    free(many);
    free(last);
    mica_free(folder);
    hub_test_close(&t);
}

typedef struct stop {
    mica_cancel *cancel;
    uint64_t at, last;
} stop;

static void stop_there(void *user, uint64_t done, uint64_t total) {
    stop *s = user;
    assert_true(done <= total);
    s->last = done;
    if (done >= s->at) mica_cancel_set(s->cancel);
}

/* A cancelled download goes on where it stopped. */
static void test_cancel(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    stop s = {.at = 100000};
    mica_pull_options options = hub_test_options(&t);
    char *folder;
    hub_test_fail(&t, "stall model.safetensors 150000 1\n");
    assert_int_equal(mica_cancel_open(&s.cancel), MICA_OK);
    options.cancel = s.cancel;
    options.progress = stop_there;
    options.progress_user = &s;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ECANCELLED);
    assert_int_equal(hub_test_count(&t, "snapshots/" MOCK_COMMIT, ""), 0);
    mica_cancel_close(&s.cancel);
    options.cancel = NULL;
    s.at = UINT64_MAX;
    long long before = mock_hub_bytes(t.hub);
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_OK);
    assert_true(mock_hub_bytes(t.hub) - before < 250000);
    assert_int_equal(s.last, 300000 + 23 + 2);
    hub_test_check_model(&t, folder);
    hub_test_close(&t);
}

static void *pull_in_thread(void *user) {
    const hub_test *t = user;
    char *folder;
    assert_int_equal(hub_test_pull(t, "org/model", &folder), MICA_OK);
    mica_free(folder);
    return NULL;
}

/* Several at once download each file once. */
static void test_several(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    pthread_t threads[4];
    char *folder;
    hub_test_fail(&t, "stall model.safetensors 150000 1\n");
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1", 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pull_in_thread, &t), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    hub_test_check_model(&t, folder);
    hub_test_close(&t);
}

/* ---- what is refused ---- */

static void test_bad_arguments(void **state) {
    (void)state;
    static const char *const names[] = {"",           "/",        "org/",      "/model", "a/b/c",
                                        "../model",   "org/..",   ".org/x",    "org/x.", "or g/x",
                                        "org/a--b",   "org/a..b", "org/x\ny",  "-o/x",   "org/x-",
                                        "org\\model", "org/m%2e", "http://a/b"};
    static const char *const revisions[] = {"", "../x", "a/../b", "/a", "a/", "a b", ".x", "x\n"};
    hub_test t = hub_test_open();
    mica_pull_options options = hub_test_options(&t);
    char *folder;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(mica_pull(names[i], &options, &folder), MICA_EINVAL);
    for (size_t i = 0; i < sizeof revisions / sizeof *revisions; i++) {
        options.revision = revisions[i];
        assert_int_equal(mica_pull("org/model", &options, &folder), MICA_EINVAL);
    }
    options = hub_test_options(&t);
    options.connections = -1;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_EINVAL);
    options = hub_test_options(&t);
    options.endpoint = "file:///etc";
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_EINVAL);
    assert_int_equal(mica_pull(NULL, &options, &folder), MICA_EINVAL);
    assert_int_equal(mica_pull("org/model", &options, NULL), MICA_EINVAL);
    assert_int_equal(mock_hub_bodies(t.hub), 0);
    hub_test_close(&t);
}

static bool pull_once(void *user) {
    hub_test *t = user;
    char *folder;
    mica_status status = hub_test_pull(t, "org/model", &folder);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    if (status != MICA_OK) assert_null(folder);
    mica_free(folder);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    test_fail_each_allocation(pull_once, &t);
    char *folder;
    assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    hub_test_check_model(&t, folder);
    hub_test_close(&t);
}

static bool pull_page(void *user) {
    char *folder;
    mica_status status = hub_test_pull(user, "org/model", &folder);
    assert_null(folder);
    assert_true(status == MICA_EFORMAT || status == MICA_ENOMEM);
    return status == MICA_EFORMAT;
}

/* The address of the next page needs memory of its own. */
static void test_no_memory_for_page(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *faults = test_format("next * file:///%0500d\n", 0);
    hub_test_fail(&t, faults);
    test_fail_each_allocation(pull_page, &t);
    free(faults);
    hub_test_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_include),
        cmocka_unit_test(test_revisions),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_confirm),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_xet),
        cmocka_unit_test(test_confirm_twins),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_memory_for_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

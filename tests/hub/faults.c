/* mica_pull where the hub, the network or the disk fails. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE

#include "base/process.h"
#include "base/system.h"
#include "hub/repository.h"
#include "hub_test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_pull(const hub_test *t) {
    char *folder;
    mica_status status = hub_test_pull(t, "org/model", &folder);
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
    hub_test_check_model(t, folder);
}

static void check_refused(const hub_test *t, mica_status status, const char *text) {
    char *folder;
    mica_status got = hub_test_pull(t, "org/model", &folder);
    assert_null(folder);
    if (got != status) fail_msg("%s: %s", mica_status_name(got), mica_last_error());
    if (!strstr(mica_last_error(), text)) fail_msg("%s lacks %s", mica_last_error(), text);
    assert_int_equal(hub_test_count(t, "snapshots/" MOCK_COMMIT, ""), 0);
}

/* ---- connections ---- */

/* A broken connection is continued: each byte comes once. */
static void test_cuts(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "cut model.safetensors 70000 4\n");
    check_pull(&t);
    assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
    hub_test_close(&t);
}

/* Cuts anywhere, by a fixed sequence of places. */
static void test_cuts_anywhere(void **state) {
    (void)state;
    unsigned place = 7;
    for (int i = 0; i < 20; i++) {
        hub_test t = hub_test_open();
        place = place * 1103515245U + 12345U;
        char *faults = test_format("cut model.safetensors %u 2\ncut config.json %u 1\n",
                                   (place >> 8) % 150000, place % 20);
        hub_test_fail(&t, faults);
        check_pull(&t);
        assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
        free(faults);
        hub_test_close(&t);
    }
}

static void test_stalls(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1", 1);
    hub_test_fail(&t, "stall model.safetensors 5000 1\n");
    check_pull(&t);
    assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
    hub_test_close(&t);
}

/* A hub that ignores ranges sends the file anew. */
static void test_ranges_ignored(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "whole model.safetensors\ncut model.safetensors 70000 1\n");
    check_pull(&t);
    assert_int_equal(mock_hub_bytes(t.hub), 370000 + 23 + 2);
    hub_test_close(&t);
}

/* A connection that never gets on ends the pull; what has come stays. */
static void test_giving_up(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "status model.safetensors 503\n");
    check_refused(&t, MICA_EIO, "503");
    hub_test_fail(&t, "status model.safetensors 503 3\n");
    check_pull(&t);
    hub_test_close(&t);
}

/* A connection that ends early again and again: what came is kept, and the text says so. */
static void test_ended_early(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "cut model.safetensors 150000 1\ncut model.safetensors 0\n");
    check_refused(&t, MICA_EIO, "ended early, when there were 150000 of 300000 bytes: ");
    assert_non_null(strstr(mica_last_error(), "run it again"));
    hub_test_fail(&t, "");
    check_pull(&t);
    assert_int_equal(mock_hub_bytes(t.hub), 300000 + 23 + 2);
    hub_test_close(&t);
}

/* What the hub says of a repository is asked for again, too. */
static void test_asked_again(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "status * 503 3\n");
    check_pull(&t);
    hub_test_close(&t);
    t = hub_test_open();
    hub_test_fail(&t, "status * 503\n");
    check_refused(&t, MICA_EIO, "503");
    hub_test_close(&t);
}

typedef struct stopper {
    char *told; /* [256] */
    mica_cancel *cancel;
} stopper;

static void tell_and_stop(void *user, const char *text) {
    const stopper *s = user;
    snprintf(s->told, 256, "%s", text);
    mica_cancel_set(s->cancel);
}

static void keep_notice(void *user, const char *text) {
    snprintf(user, 256, "%s", text);
}

/* How long the hub asks to wait is told, and at most a minute of it is waited. */
static void test_retry_after(void **state) {
    (void)state;
    static const char *const places[] = {"*", "config.json"};
    for (int i = 0; i < 4; i++) {
        hub_test t = hub_test_open();
        char told[256] = "", *folder;
        char *faults = test_format("status %s 429 1\nafter %s %s\n", places[i / 2], places[i / 2],
                                   i % 2 ? "86400" : "1");
        mica_pull_options options = hub_test_options(&t);
        mica_cancel *cancel;
        hub_test_fail(&t, faults);
        assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
        options.notice = i % 2 ? tell_and_stop : keep_notice;
        stopper s = {told, cancel};
        options.notice_user = i % 2 ? (void *)&s : (void *)told;
        options.cancel = cancel;
        mica_status status = mica_pull("org/model", &options, &folder);
        assert_int_equal(status, i % 2 ? MICA_ECANCELLED : MICA_OK);
        assert_non_null(strstr(told, i % 2 ? " s; it is asked again in a minute"
                                           : " answers 429 and asks to wait 1 s"));
        mica_free(folder);
        mica_cancel_close(&cancel);
        free(faults);
        hub_test_close(&t);
    }
}

static void test_no_hub(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *folder;
    mica_pull_options options = hub_test_options(&t);
    options.endpoint = "http://127.0.0.1:1";
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_EIO);
    assert_non_null(strstr(mica_last_error(), "http://127.0.0.1:1"));
    hub_test_close(&t);
}

/* ---- answers ---- */

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *faults;
        mica_status status;
        const char *text;
    } cases[] = {
        {"status * 401\ncode * RepoNotFound\n", MICA_ENOENT, "private"},
        {"status * 404\n", MICA_ENOENT, "no repository org/model"},
        {"status model.safetensors 403\ncode model.safetensors GatedRepo\n", MICA_EIO, "is gated"},
        {"status config.json 404\ncode config.json EntryNotFound\n", MICA_ENOENT, "config.json"},
        {"status * 429\n", MICA_EIO, "too many requests"},
        {"status * 418\n", MICA_EIO, "418"},
        {"outside config.json\n", MICA_EFORMAT, "leads out"},
        {"next * file:///dev/null\n", MICA_EFORMAT, "no address of a hub"},
        {"next * ftp://127.0.0.1:1/x\n", MICA_EFORMAT, "no address of a hub"},
        {"deep config.json\n", MICA_EFORMAT, "deep"},
        {"loop config.json\n", MICA_EFORMAT, "too many redirects"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hub_test t = hub_test_open();
        hub_test_fail(&t, cases[i].faults);
        check_refused(&t, cases[i].status, cases[i].text);
        hub_test_close(&t);
    }
}

/* ---- checksums ---- */

/* A wrong file is dropped: nothing of it is left under its name. */
static void test_wrong_checksum(void **state) {
    (void)state;
    static const char *const files[] = {"model.safetensors", "config.json"};
    for (int i = 0; i < 2; i++) {
        hub_test t = hub_test_open();
        check_pull(&t);
        char *blob = hub_test_blob(&t, files[i]), *part = test_format("%s.incomplete", blob);
        assert_int_equal(access(blob, F_OK), 0);
        assert_int_equal(mica_cache_remove("org/model", t.cache, NULL), MICA_OK);
        char *faults = test_format("corrupt %s\n", files[i]);
        hub_test_fail(&t, faults);
        check_refused(&t, MICA_EFORMAT, "checksum");
        assert_int_not_equal(access(blob, F_OK), 0);
        assert_int_not_equal(access(part, F_OK), 0);
        hub_test_fail(&t, "");
        check_pull(&t);
        assert_int_equal(access(blob, F_OK), 0);
        free(faults);
        free(blob);
        free(part);
        hub_test_close(&t);
    }
}

/* Two files of one checksum are one content: it cannot have two sizes. */
static void test_two_sizes(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    test_write_below(t.root, "org/model/again.json", "{\"model_type\": \"llama\"}");
    check_pull(&t);
    hub_test_close(&t);
    t = hub_test_open();
    test_write_below(t.root, "org/model/again.json", "{\"model_type\": \"llama\"}");
    hub_test_fail(&t, "short again.json\n");
    check_refused(&t, MICA_EFORMAT, "two sizes");
    hub_test_close(&t);
}

/* The hub says that a file is longer than what it sends. */
static void test_short_file(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "short config.json\n");
    char *folder;
    assert_int_not_equal(hub_test_pull(&t, "org/model", &folder), MICA_OK);
    assert_int_equal(hub_test_count(&t, "snapshots/" MOCK_COMMIT, ""), 0);
    hub_test_close(&t);
}

/* A beginning that is another file's, or longer than the file, is no beginning. */
static void test_wrong_beginning(void **state) {
    (void)state;
    static const size_t sizes[] = {5000, 299999, 300000, 400000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hub_test t = hub_test_open();
        check_pull(&t);
        char *blobs = hub_test_path(&t, "blobs"), *junk = calloc(1, sizes[i]);
        test_list files = test_list_files(blobs, "");
        for (size_t f = 0; f < files.count; f++) { /* the large one has the longest name */
            char *path = test_format("%s/%s", blobs, files.names[f]);
            char *part = test_format("%s.incomplete", path);
            if (strlen(files.names[f]) == 64) {
                assert_int_equal(remove(path), 0);
                test_write_file(part, junk, sizes[i]);
            }
            free(path);
            free(part);
        }
        check_pull(&t);
        test_list_free(&files);
        free(blobs);
        free(junk);
        hub_test_close(&t);
    }
}

/* ---- large beginnings ---- */

enum { BEGINNING = 32 << 20, MEGABYTES = 32 };

/* Counts, and lets the hub have time to send. */
static void count_call(void *user, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    ++*(int *)user;
    poll(NULL, 0, 5);
}

/* While a large beginning is read for its checksum, other files are downloaded. */
static void test_large_beginning(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    check_pull(&t);
    char *blob = hub_test_blob(&t, "model.safetensors"), *part = test_format("%s.incomplete", blob);
    assert_int_equal(mica_cache_remove("org/model", t.cache, NULL), MICA_OK);
    test_write_below(t.cache, part + strlen(t.cache) + 1, "");
    assert_int_equal(truncate(part, BEGINNING), 0);
    char *faults = test_format("size model.safetensors %d\nstatus model.safetensors 404\n"
                               "code model.safetensors EntryNotFound\n",
                               BEGINNING + 1);
    hub_test_fail(&t, faults);
    int calls = 0;
    char *folder;
    mica_pull_options options = hub_test_options(&t);
    options.progress = count_call;
    options.progress_user = &calls;
    assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
    assert_non_null(strstr(mica_last_error(), "has no model.safetensors"));
    assert_true(calls > MEGABYTES); /* one behind each */
    assert_int_equal(hub_test_count(&t, "blobs", ""), 3);
    assert_int_equal(hub_test_count(&t, "blobs", ".incomplete"), 1);
    free(faults);
    free(blob);
    free(part);
    hub_test_close(&t);
}

/* ---- what is in the cache's place ---- */

/* Puts something else where a file of the cache is to be written; it is refused, not waited for. */
static void check_odd(const char *place, const char *suffix, bool folder) {
    hub_test t = hub_test_open();
    check_pull(&t);
    char *blob = hub_test_blob(&t, "model.safetensors"), *name = strrchr(blob, '/') + 1;
    assert_int_equal(remove(blob), 0);
    char *path = test_format(place, t.cache, name);
    char *odd = test_format("%s%s", path, suffix);
    (void)remove(odd);
    if (folder ? mkdir(odd, 0777) == 0 : test_make_fifo(odd)) {
        char *got;
        mica_status status = hub_test_pull(&t, "org/model", &got);
        assert_null(got);
        assert_int_equal(status, MICA_EIO);
        assert_non_null(strstr(mica_last_error(), odd));
    } else {
        assert_false(folder);
    }
    free(path);
    free(odd);
    free(blob);
    hub_test_close(&t);
}

static void test_odd_files(void **state) {
    (void)state;
    for (int folder = 0; folder < 2; folder++) {
        check_odd("%s/models--org--model/blobs/%s", ".incomplete", folder);
        check_odd("%s/.locks/models--org--model/%s", ".lock", folder);
    }
}

/* A FIFO in a blob's or a link's place is replaced. */
static void test_odd_links(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    char *folder, *link = hub_test_path(&t, "snapshots/" MOCK_COMMIT "/config.json");
    check_pull(&t);
    char *blob = hub_test_blob(&t, "config.json"), *ref = hub_test_path(&t, "refs/main");
    assert_int_equal(remove(blob), 0);
    if (test_make_fifo(blob)) {
        assert_int_equal(remove(link) | remove(ref), 0);
        assert_true(test_make_fifo(link) && test_make_fifo(ref));
        mica_pull_options options = hub_test_options(&t);
        options.offline = true;
        assert_int_equal(mica_pull("org/model", &options, &folder), MICA_ENOENT);
        assert_int_equal(hub_test_pull(&t, "org/model", &folder), MICA_EIO);
        assert_int_equal(remove(ref), 0);
    }
    check_pull(&t);
    free(blob);
    free(link);
    free(ref);
    hub_test_close(&t);
}

/* ---- the disk ---- */

/* What does not fit is not begun. */
static void test_no_room(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    hub_test_fail(&t, "size model.safetensors 1000000000000000000\n");
    check_refused(&t, MICA_EIO, "org/model does not fit on the disk of");
    assert_non_null(strstr(mica_last_error(), ": 1000000000000 MB are missing of it, and "));
    assert_int_equal(mock_hub_bodies(t.hub), 0);
    hub_test_fail(&t, "size model.safetensors 9223372036854775807\n" /* the sum is small again */
                      "size config.json 9223372036854775807\n");
    check_refused(&t, MICA_EIO, ": 18446744073709 MB are missing of it, and ");
    assert_int_equal(mock_hub_bodies(t.hub), 0);
    hub_test_fail(&t, "");
    check_pull(&t);
    hub_test_close(&t);
}

/* Writing fails in the middle, as on a full disk: a status, and the beginning stays. */
static void test_full_disk(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    if (test_limit_file_bytes(100000)) {
        check_refused(&t, MICA_EIO, "cannot write");
        assert_true(test_limit_file_bytes(0));
    }
    check_pull(&t);
    assert_true(mock_hub_bytes(t.hub) < 2 * 300000);
    hub_test_close(&t);
}

static void test_read_only(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    assert_int_equal(mkdir(t.cache, 0555), 0);
    static const char *const folders[] = {"", "hub", "hub/org", "hub/org/model"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) { /* the hub reads them */
        char *path = test_format("%s/%s", t.folder, folders[i]);
        assert_int_equal(chmod(path, 0755), 0);
        free(path);
    }
    if (test_lose_rights()) {
        check_refused(&t, MICA_EIO, "cannot make the folder");
        test_regain_rights();
    }
    hub_test_close(&t);
}

/* ---- killed processes ---- */

/* Kills a pull when the hub has sent that many bytes. returns whether it ended before */
static bool kill_behind(const hub_test *t, long long bytes) {
    const char *const argv[] = {test_command(), "pull",   "org/model", "--quiet",
                                "--cache-dir",  t->cache, NULL};
    const mc_process_options options = {.argv = argv, .max_line_bytes = 4096};
    mc_process *child;
    mc_str line;
    mc_process_got got = MC_PROCESS_LINE;
    assert_int_equal(mc_process_start(&options, &child), MICA_OK);
    while (mock_hub_bytes(t->hub) < bytes && got != MC_PROCESS_END)
        assert_int_equal(mc_process_read(child, mc_now_us() + 1000, &line, &got), MICA_OK);
    mc_process_close(&child, 0);
    return got == MC_PROCESS_END;
}

/* Killed at many moments, the next pull goes on, and ends with the same files. What looks like a
 * model is whole. */
static void test_killed(void **state) {
    (void)state;
    hub_test t = hub_test_open();
    unsigned moment = 3;
    int killed = 0;
    setenv("HF_ENDPOINT", t.endpoint, 1);
    hub_test_fail(&t, "cut model.safetensors 9000\n");
    while (killed < 50) {
        moment = moment * 1103515245U + 12345U;
        bool ended = kill_behind(&t, mock_hub_bytes(t.hub) + 1 + (moment >> 8) % 60000);
        bool model = hub_test_count(&t, "snapshots/" MOCK_COMMIT, "config.json") > 0;
        killed += !ended;
        if (!model) continue;
        assert_int_equal(hub_test_count(&t, "snapshots/" MOCK_COMMIT, ""), 3);
        check_pull(&t);
        assert_int_equal(mica_cache_remove("org/model", t.cache, NULL), MICA_OK);
    }
    hub_test_fail(&t, "");
    check_pull(&t);
    unsetenv("HF_ENDPOINT");
    hub_test_close(&t);
}

/* What a process left that was killed while it linked a file goes with the next pull. */
static void test_left_links(void **state) {
    (void)state;
    static const char *const names[] = {"config.json", "model.safetensors"};
    if (!test_has_links()) skip();
    hub_test t = hub_test_open();
    check_pull(&t);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *below = test_format("snapshots/" MOCK_COMMIT "/%s", names[i]), target[256] = "";
        char *link = hub_test_path(&t, below);
        ssize_t len = readlink(link, target, sizeof target - 1);
        assert_true(len > 0);
        free(below);
        below = test_format("%s.link%d", target + strlen("../../"), (int)len);
        char *left = hub_test_path(&t, below);
        assert_int_equal(symlink("nothing", left), 0);
        assert_int_equal(unlink(link), 0);
        free(left);
        free(link);
        free(below);
    }
    check_pull(&t);
    assert_int_equal(hub_test_count(&t, "snapshots/" MOCK_COMMIT, ""), 3);
    hub_test_close(&t);
}

/* A file is linked without harm to another one, whatever their names. */
static void test_link_names(void **state) {
    (void)state;
    static const char *const paths[] = {"a.mica-link", "a.link", "b/a", "a"};
    if (!test_has_links()) skip();
    hub_test t = hub_test_open();
    mc_repository r;
    check_pull(&t);
    assert_int_equal(mc_repository_init(&r, t.cache, "org/model"), MICA_OK);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(mc_repository_link(&r, MOCK_COMMIT, paths[i], "abcd"), MICA_OK);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *below = test_format("snapshots/" MOCK_COMMIT "/%s", paths[i]), target[256] = "";
        char *link = hub_test_path(&t, below);
        assert_true(readlink(link, target, sizeof target - 1) > 0);
        assert_string_equal(target,
                            strchr(paths[i], '/') ? "../../../blobs/abcd" : "../../blobs/abcd");
        free(link);
        free(below);
    }
    assert_int_equal(hub_test_count(&t, "blobs", ""), 3);
    mc_repository_deinit(&r);
    hub_test_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_cuts_anywhere),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_ranges_ignored),
        cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_ended_early),
        cmocka_unit_test(test_no_hub),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wrong_checksum),
        cmocka_unit_test(test_short_file),
        cmocka_unit_test(test_wrong_beginning),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_left_links),
        cmocka_unit_test(test_link_names),
        cmocka_unit_test(test_two_sizes),
        cmocka_unit_test(test_asked_again),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_odd_links),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_large_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

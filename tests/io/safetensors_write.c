/* io/safetensors_write: files that Python's safetensors has read back, and what cannot be
 * written. */
#define _POSIX_C_SOURCE 200809L

#include "io/safetensors_write.h"

#include "io/save_weights.h"
#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char *dir, *path;

static int make_folder(void **state) {
    (void)state;
    dir = test_temp_dir();
    path = test_format("%s/x.safetensors", dir);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    free(path);
    test_temp_dir_remove(dir);
    return 0;
}

/* The tensors of tools/make_safetensors_golden.py, in the order in which it writes them. */
static const float floats[] = {0.0F, -1.5F, 3e38F, 1e-45F, 2.0F, -0.0F};
static const uint16_t halves[] = {0x3f80, 0xc000, 0x7f80};
static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 255};
static const mc_weight_tensor golden[] = {
    {.name = "a.weight", .kind = "F32", .ndim = 2, .shape = {2, 3}, .data = floats},
    {.name = "scalar", .kind = "F32", .ndim = 0, .data = floats + 1},
    {.name = "halves", .kind = "BF16", .ndim = 1, .shape = {3}, .data = halves},
    {.name = "empty", .kind = "F16", .ndim = 2, .shape = {0, 4}, .data = halves},
    {.name = "codes", .kind = "U8", .ndim = 1, .shape = {7}, .data = bytes},
};
enum { N_GOLDEN = sizeof golden / sizeof *golden };
static const mica_metadata notes[] = {{"format", "mlx"}, {"note \"\xc3\xa9\"", "line\nfeed"}};
#define NOTE notes[1].key

/* What the metadata say of a key; NULL: nothing. */
static const char *metadata_of(const mc_weights *w, const char *wanted) {
    const char *key, *value;
    for (size_t i = 0; mc_weights_metadata_at(w, i, &key, &value); i++)
        if (strcmp(key, wanted) == 0) return value;
    return NULL;
}

/* The bytes that Python's safetensors writes. */
static void test_golden(void **state) {
    (void)state;
    char *file = test_format("%s/safetensors/written.safetensors", test_cases_dir());
    size_t want_size, size;
    assert_int_equal(save_weights(path, golden, N_GOLDEN, notes, 1), MICA_OK);
    char *want = test_read_file(file, &want_size), *got = test_read_file(path, &size);
    assert_int_equal(size, want_size);
    assert_memory_equal(got, want, size);
    free(want);
    free(got);
    free(file);
}

static void test_read_back(void **state) {
    (void)state;
    mc_weights *w;
    const char *key, *value;
    mc_weight_tensor tensors[N_GOLDEN];
    memcpy(tensors, golden, sizeof golden);
    tensors[0].name = "a \"quoted\\ \x01 \xc3\xa9\xf0\x9f\x90\x8e";
    assert_int_equal(save_weights(path, tensors, N_GOLDEN, notes, 2), MICA_OK);
    assert_int_equal(mc_weights_open(path, NULL, &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), N_GOLDEN);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const mc_weight_tensor *t = mc_weights_find(w, tensors[i].name);
        assert_non_null(t);
        assert_string_equal(t->kind, golden[i].kind);
        assert_int_equal(t->ndim, golden[i].ndim);
        for (int d = 0; d < t->ndim; d++)
            assert_int_equal(t->shape[d], golden[i].shape[d]);
        if (t->bytes) assert_memory_equal(t->data, golden[i].data, t->bytes);
    }
    assert_string_equal(metadata_of(w, NOTE), "line\nfeed");
    assert_null(metadata_of(w, "none"));
    assert_true(mc_weights_metadata_at(w, 0, &key, &value));
    assert_string_equal(key, "format");
    assert_false(mc_weights_metadata_at(w, 2, &key, &value));
    mc_weights_close(&w);
}

static void expect(const mc_weight_tensor *tensors, size_t n, const mica_metadata *metadata,
                   size_t n_metadata, const char *says) {
    assert_int_equal(save_weights(path, tensors, n, metadata, n_metadata), MICA_EINVAL);
    if (!strstr(mica_last_error(), says))
        fail_msg("'%s' does not say '%s'", mica_last_error(), says);
    assert_int_equal(test_count_entries(dir), 0);
}

static void test_refused(void **state) {
    (void)state;
    const mc_weight_tensor u8 = {.name = "x", .kind = "U8", .ndim = 1, .shape = {7}, .data = bytes};
    mc_weight_tensor two[] = {u8, u8};
    expect(two, 2, NULL, 0, "two tensors are called 'x'");
    two[0].name = "__metadata__";
    expect(two, 1, NULL, 0, "__metadata__");
    two[0].name = "\xff";
    expect(two, 1, NULL, 0, "not UTF-8");
    two[0].name = NULL;
    expect(two, 1, NULL, 0, "no name");
    two[0] = u8;
    two[0].kind = "F80";
    expect(two, 1, NULL, 0, "F80");
    two[0].kind = NULL;
    expect(two, 1, NULL, 0, "dtype NULL");
    two[0] = u8;
    two[0].kind = "F4"; /* 3.5 bytes */
    expect(two, 1, NULL, 0, "F4");
    two[0] = u8;
    two[0].shape[0] = -1;
    expect(two, 1, NULL, 0, "'x'");
    two[0].shape[0] = INT64_MAX;
    two[0].kind = "F32";
    expect(two, 1, NULL, 0, "too large");
    two[0].kind = "U8";
    expect(two, 1, NULL, 0, "too large");
    static const char names[] = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0m\0n\0o\0p";
    mc_weight_tensor many[16]; /* together they overflow */
    for (size_t i = 0; i < 16; i++)
        many[i] = (mc_weight_tensor){
            .name = names + 2 * i, .kind = "U8", .ndim = 1, .shape = {INT64_C(1) << 59}};
    expect(many, 16, NULL, 0, "tensor 'p': dtype U8 and its shape");
    expect(&u8, 1, &(mica_metadata){"a", NULL}, 1, "value of the metadata");
    expect(&u8, 1, &(mica_metadata){"\x80", "b"}, 1, "key of the metadata");
}

/* Too little and too much data; the old file stays. */
static void test_wrong_amount(void **state) {
    (void)state;
    mc_weights_writer *w;
    const mc_weight_tensor *u8 = &golden[4];
    test_write_file(path, "old", 3);
    assert_int_equal(mc_weights_writer_open(path, u8, 1, NULL, 0, &w), MICA_OK);
    assert_int_equal(mc_weights_writer_add(w, bytes, 6), MICA_OK);
    assert_int_equal(mc_weights_writer_close(&w, MICA_OK), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "1 bytes of its tensors are missing"));
    assert_null(w);
    assert_int_equal(mc_weights_writer_open(path, u8, 1, NULL, 0, &w), MICA_OK);
    assert_int_equal(mc_weights_writer_add(w, bytes, 7), MICA_OK);
    assert_int_equal(mc_weights_writer_add(w, bytes, 1), MICA_EINVAL);
    assert_int_equal(mc_weights_writer_close(&w, MICA_ECANCELLED), MICA_ECANCELLED);
    char *old = test_read_file(path, NULL);
    assert_string_equal(old, "old");
    free(old);
    assert_int_equal(test_count_entries(dir), 1);
}

static void test_no_room(void **state) {
    (void)state;
    struct rlimit all, few;
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(save_weights("/dev/full", golden, N_GOLDEN, NULL, 0), MICA_EIO);
        assert_non_null(strstr(mica_last_error(), "No space left on device"));
    }
    enum { MANY = 1 << 20 };
    char *zeros = calloc(MANY, 1);
    assert_non_null(zeros);
    const mc_weight_tensor big = {
        .name = "big", .kind = "U8", .ndim = 1, .shape = {MANY}, .data = zeros};
    test_write_file(path, "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = (struct rlimit){MANY / 2, all.rlim_max};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    assert_int_equal(save_weights(path, &big, 1, NULL, 0), MICA_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    signal(SIGXFSZ, before);
    char *old = test_read_file(path, NULL);
    assert_string_equal(old, "old");
    assert_int_equal(test_count_entries(dir), 1);
    free(old);
    free(zeros);
}

static void test_no_rights(void **state) {
    (void)state;
    assert_int_equal(save_weights("/none/at/all", golden, N_GOLDEN, NULL, 0), MICA_ENOENT);
    assert_int_equal(chmod(dir, 0555), 0);
    if (test_lose_rights()) {
        assert_int_equal(save_weights(path, golden, N_GOLDEN, NULL, 0), MICA_EIO);
        assert_non_null(strstr(mica_last_error(), path));
        test_regain_rights();
    }
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(test_count_entries(dir), 0);
}

static bool save_whole(void *arg) {
    (void)arg;
    mica_status status = save_weights(path, golden, N_GOLDEN, notes, 2);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    assert_int_equal(test_count_entries(dir), status == MICA_OK);
    return status == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    test_fail_each_allocation(save_whole, NULL);
}

/* ---- shards ---- */

static mica_status save_shards(uint64_t shard_bytes) {
    mc_shard_writer *w;
    mica_status status = mc_shard_writer_open(dir, golden, N_GOLDEN, shard_bytes, 17, &w);
    for (size_t i = 0; i < N_GOLDEN && status == MICA_OK; i++) {
        uint64_t size = 0;
        assert_true(mc_weight_bytes(&golden[i], &size));
        status = mc_shard_writer_add(w, golden[i].data, (size_t)size);
    }
    return mc_shard_writer_close(&w, status);
}

static void check_folder(void) {
    mc_weights *w;
    if (mc_weights_open(dir, NULL, &w) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mc_weights_count(w), N_GOLDEN);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const mc_weight_tensor *t = mc_weights_find(w, golden[i].name);
        assert_non_null(t);
        if (t->bytes) assert_memory_equal(t->data, golden[i].data, t->bytes);
    }
    assert_string_equal(metadata_of(w, "format"), "mlx");
    mc_weights_close(&w);
}

static void test_shards(void **state) {
    (void)state;
    char *index = test_format("%s/model.safetensors.index.json", dir);
    for (uint64_t limit = 0; limit < 50; limit++) {
        assert_int_equal(save_shards(limit), MICA_OK);
        char *text = test_read_file(index, NULL);
        assert_non_null(strstr(text, "\"total_size\": 41,"));
        assert_non_null(strstr(text, "\"total_parameters\": 17"));
        free(text);
        test_list files = test_list_files(dir, ".safetensors");
        for (size_t i = 0; i < files.count; i++) {
            if (limit >= 41) assert_string_equal(files.names[i], "model.safetensors");
        }
        check_folder();
        for (size_t i = 0; i < files.count; i++) {
            char *file = test_format("%s/%s", dir, files.names[i]);
            remove(file);
            free(file);
        }
        /* What filling each in order makes of 24, 4, 6, 0 and 7 bytes. */
        assert_int_equal(files.count, limit >= 41   ? 1
                                      : limit >= 17 ? 2
                                      : limit >= 10 ? 3
                                      : limit >= 6  ? 4
                                                    : 5);
        test_list_free(&files);
    }
    free(index);
}

static bool save_and_check_shards(void *arg) {
    (void)arg;
    mica_status status = save_shards(10);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_shards_out_of_memory(void **state) {
    (void)state;
    test_fail_each_allocation(save_and_check_shards, NULL);
    check_folder();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),        TEST(test_read_back), TEST(test_refused),
        TEST(test_wrong_amount),  TEST(test_no_room),   TEST(test_no_rights),
        TEST(test_out_of_memory), TEST(test_shards),    TEST(test_shards_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

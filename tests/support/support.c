#define _XOPEN_SOURCE 700

#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "device/device.h"
#include "exec/cache.h"
#include "support/witness.h"

const char *test_fixtures_dir(void) {
    const char *dir = getenv("MICA_FIXTURES");
    return dir && *dir ? dir : MICA_DEFAULT_FIXTURES;
}

const char *test_cases_dir(void) {
    return MICA_DEFAULT_FIXTURES;
}

const char *test_models_dir(void) {
    return MICA_DEFAULT_MODELS;
}

const char *test_command(void) {
    return MICA_COMMAND;
}

static void *must(void *ptr) {
    if (!ptr) fail_msg("out of memory in the test itself");
    return ptr;
}

char *test_format(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert_true(len >= 0);

    char *text = must(malloc((size_t)len + 1));
    va_start(args, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

static bool has_suffix(const char *name, const char *suffix) {
    size_t len = strlen(name), suffix_len = strlen(suffix);
    return len >= suffix_len && !strcmp(name + len - suffix_len, suffix);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static test_list list_dir(const char *dir, bool folders, const char *suffix) {
    test_list list = {0};
    DIR *stream = opendir(dir);
    if (!stream) fail_msg("%s: %s", dir, strerror(errno));

    struct dirent *entry;
    while ((entry = readdir(stream))) {
        const char *name = entry->d_name;
        if (name[0] == '.' || !has_suffix(name, suffix)) continue;
        char *path = test_format("%s/%s", dir, name);
        struct stat info;
        bool wanted =
            !stat(path, &info) && (folders ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode));
        free(path);
        if (!wanted) continue;
        list.names = must(realloc(list.names, (list.count + 1) * sizeof *list.names));
        list.names[list.count++] = test_format("%s", name);
    }
    closedir(stream);
    if (list.count) qsort(list.names, list.count, sizeof *list.names, by_name);
    return list;
}

test_list test_list_folders(const char *dir) {
    return list_dir(dir, true, "");
}

test_list test_list_files(const char *dir, const char *suffix) {
    return list_dir(dir, false, suffix);
}

void test_list_free(test_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (test_list){0};
}

size_t test_count_entries(const char *dir) {
    size_t count = 0;
    DIR *stream = opendir(dir);
    if (!stream) fail_msg("%s: %s", dir, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(stream));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return count;
}

char *test_read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    assert_true(end >= 0);
    rewind(file);

    char *data = must(malloc((size_t)end + 1));
    if (fread(data, 1, (size_t)end, file) != (size_t)end) fail_msg("%s: short read", path);
    fclose(file);
    data[end] = 0;
    if (size) *size = (size_t)end;
    return data;
}

mc_json_doc *test_load_json(const char *path) {
    mc_json_doc *doc;
    if (mc_json_load(path, MC_FILE_TOKENIZER, &doc) != MICA_OK) fail_msg("%s", mica_last_error());
    return doc;
}

void test_write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    if (size && fwrite(data, 1, size, file) != size) fail_msg("%s: short write", path);
    if (fclose(file)) fail_msg("%s: %s", path, strerror(errno));
}

void test_write_below(const char *root, const char *path, const char *text) {
    char *full = test_format("%s/%s", root, path), *slash = full + strlen(root);
    while ((slash = strchr(slash + 1, '/'))) {
        *slash = 0;
        if (mkdir(full, 0700) && errno != EEXIST) fail_msg("%s: %s", full, strerror(errno));
        *slash = '/';
    }
    test_write_file(full, text, strlen(text));
    free(full);
}

void test_copy_file(const char *from, const char *to) {
    size_t size;
    char *data = test_read_file(from, &size);
    test_write_file(to, data, size);
    free(data);
}

char *test_program(const char *own) {
    const char *given = getenv("MICA_TEST_PROGRAM");
    return given && *given ? test_format("%s", given) : realpath(own, NULL);
}

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t test_heap_bytes(void) {
    if (__sanitizer_get_current_allocated_bytes) return __sanitizer_get_current_allocated_bytes();
#if defined(__GLIBC__)
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

bool test_is_brief(void) {
    return getenv("MICA_TEST_BRIEF") != NULL;
}

enum { BRIEF_FAILURES = 7 }; /* in brief only each so-manieth allocation fails */

uint64_t test_fail_each_allocation(bool (*body)(void *arg), void *arg) {
    const uint64_t step = test_is_brief() ? BRIEF_FAILURES : 1;
    for (uint64_t n = 1;; n += step) {
        mc_alloc_fail_at(n);
        bool done = body(arg);
        bool failed = mc_alloc_count() >= n;
        mc_alloc_fail_at(0);
        if (!failed) {
            if (!done)
                fail_msg("failed although all %llu allocations were given",
                         (unsigned long long)(n - 1));
            assert_true(n > 1);
            return n - 1;
        }
        if (done) fail_msg("succeeded although allocation %llu failed", (unsigned long long)n);
    }
}

static const char *device_name(void) {
    const char *name = getenv("MICA_TEST_DEVICE");
    return name && *name ? name : "cpu";
}

mica_status test_device_open(const mica_device_options *options, mica_device **device) {
    static const char witness[] = "witness";
    const char *name = device_name(), *variant = strchr(name, ':');
    size_t len = variant ? (size_t)(variant - name) : strlen(name);
    if (len != strlen(witness) || strncmp(name, witness, len) != 0)
        return mica_device_open(name, options, device);
    mica_device_options given = options ? *options : (mica_device_options){.threads = 0};
    given.threads = 1; /* the pools of its inner device and of the fallback would share two cores */
    variant = variant ? variant + 1 : "";
    const mc_backend *backend = strcmp(variant, "steps") == 0     ? &witness_steps_backend
                                : strcmp(variant, "unified") == 0 ? &witness_unified_backend
                                                                  : &witness_backend;
    return mc_device_open_backend(backend, variant, &given, device);
}

bool test_device_is_other(void) {
    return strcmp(device_name(), "cpu") != 0;
}

int test_case_step(void) {
    return test_device_is_other() || test_is_brief() ? 3 : 1;
}

uint64_t test_failure_step(void) {
    if (test_device_is_other()) return 401;
    return test_is_brief() ? BRIEF_FAILURES : 1;
}

bool test_device_keeps_order(void) {
    return strncmp(device_name(), "mlx", 3) != 0;
}

bool test_device_rounds_prompts(void) {
    return strncmp(device_name(), "cuda", 4) == 0;
}

bool test_device_is_gpu(void) {
    return strcmp(device_name(), "mlx:gpu") == 0;
}

uint64_t test_active_bytes(mica_device *device) {
    if (!test_device_keeps_order()) test_forget_plans(device);
    return mica_device_active_bytes(device);
}

void test_forget_plans(mica_device *device) {
    mica_device_clear_cache(device);
    mc_graph_cache *cache = mc_graph_cache_of(device);
    if (!cache) return; /* no memory for it: then there is none */
    mc_graph_cache_clear(cache);
    assert_int_equal(cache->count, 0); /* nobody holds one */
}

#define _POSIX_C_SOURCE 200809L

#include "hub_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WEIGHTS = 300000 };

static void write_weights(const hub_test *t) {
    char *path = test_format("%s/org/model/model.safetensors", t->root), *data = malloc(WEIGHTS);
    assert_non_null(data);
    for (size_t i = 0; i < WEIGHTS; i++)
        data[i] = (char)(i * i >> 7);
    test_write_file(path, data, WEIGHTS);
    free(data);
    free(path);
}

hub_test hub_test_open(void) {
    static const char *const variables[] = {
        "HF_ENDPOINT",    "HF_TOKEN",  "HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_HUB_OFFLINE", "HF_HOME",   "HF_HUB_CACHE",  "HF_HUB_DOWNLOAD_TIMEOUT",
        "http_proxy",     "all_proxy", "ALL_PROXY",     "XDG_CACHE_HOME"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    hub_test t = {.folder = test_temp_dir()};
    setenv("HOME", t.folder, 1);
    t.root = test_format("%s/hub", t.folder);
    t.cache = test_format("%s/cache", t.folder);
    assert_int_equal(mkdir(t.root, 0777), 0);
    test_write_below(t.root, "org/model/config.json", "{\"model_type\": \"llama\"}");
    test_write_below(t.root, "org/model/tokenizer.json", "{}");
    test_write_below(t.root, "org/model/README.md", "read me");
    test_write_below(t.root, "org/model/original/weights.safetensors", "old");
    write_weights(&t);
    t.hub = mock_hub_start(t.root);
    t.endpoint = test_format("http://127.0.0.1:%d", mock_hub_port(t.hub));
    return t;
}

void hub_test_close(hub_test *t) {
    assert_false(mock_hub_leaked(t->hub));
    mock_hub_stop(t->hub);
    test_temp_dir_remove(t->folder);
    free(t->root);
    free(t->cache);
    free(t->endpoint);
}

mica_pull_options hub_test_options(const hub_test *t) {
    return (mica_pull_options){.struct_bytes = sizeof(mica_pull_options),
                               .cache = t->cache,
                               .endpoint = t->endpoint,
                               .token = ""};
}

mica_status hub_test_pull(const hub_test *t, const char *name, char **folder) {
    mica_pull_options options = hub_test_options(t);
    return mica_pull(name, &options, folder);
}

void hub_test_fail(const hub_test *t, const char *faults) {
    test_write_below(t->root, "org/model.faults", faults);
}

void hub_test_check_file(const hub_test *t, const char *snapshot, const char *file) {
    size_t sizes[2];
    char *paths[2] = {test_format("%s/org/model/%s", t->root, file),
                      test_format("%s/%s", snapshot, file)};
    char *data[2] = {test_read_file(paths[0], &sizes[0]), test_read_file(paths[1], &sizes[1])};
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(data[0], data[1], sizes[0]);
    for (int i = 0; i < 2; i++) {
        free(paths[i]);
        free(data[i]);
    }
}

char *hub_test_path(const hub_test *t, const char *below) {
    return test_format("%s/models--org--model/%s", t->cache, below);
}

char *hub_test_blob(const hub_test *t, const char *file) {
    char *below = test_format("snapshots/" MOCK_COMMIT "/%s", file), *found = NULL;
    char *link = hub_test_path(t, below), *blobs = hub_test_path(t, "blobs");
    struct stat wanted, info;
    assert_int_equal(stat(link, &wanted), 0);
    test_list all = test_list_files(blobs, "");
    for (size_t i = 0; i < all.count && !found; i++) {
        char *path = test_format("%s/%s", blobs, all.names[i]);
        if (stat(path, &info) == 0 && info.st_ino == wanted.st_ino && info.st_dev == wanted.st_dev)
            found = path;
        else
            free(path);
    }
    assert_non_null(found);
    test_list_free(&all);
    free(below);
    free(link);
    free(blobs);
    return found;
}

size_t hub_test_count(const hub_test *t, const char *below, const char *suffix) {
    struct stat info;
    char *path = hub_test_path(t, below);
    size_t count = 0;
    if (stat(path, &info) == 0) {
        test_list list = test_list_files(path, suffix);
        count = list.count;
        test_list_free(&list);
    }
    free(path);
    return count;
}

void hub_test_check_model(const hub_test *t, char *snapshot) {
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        hub_test_check_file(t, snapshot, files[i]);
    assert_int_equal(hub_test_count(t, "blobs", ""), 3);
    assert_int_equal(hub_test_count(t, "blobs", ".incomplete"), 0);
    mica_free(snapshot);
}

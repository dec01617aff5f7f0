/* mica_gguf_folder: a model in two files is the same model; of two processes one converts and the
 * other waits; one that is killed leaves nothing that is taken for a model. */
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#include <mica/mica.h>

#include "io/gguf.h"
#include "support/support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir, *source, *cache;

static int make_dir(void **state) {
    (void)state;
    dir = test_temp_dir();
    cache = test_format("%s/cache", dir);
    source = test_format("%s/gguf/qwen3/model.gguf", test_cases_dir());
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    free(cache);
    free(source);
    test_temp_dir_remove(dir);
    return 0;
}

/* The bytes of a file of the folder that is made of a path. */
static char *convert(const char *path, const char *name, size_t *size) {
    char *folder;
    if (mica_gguf_folder(path, &(mica_gguf_options){.cache = cache, .threads = 1}, &folder))
        fail_msg("%s", mica_last_error());
    char *file = test_format("%s/%s", folder, name);
    char *bytes = test_read_file(file, size);
    mica_free(folder);
    free(file);
    return bytes;
}

/* ---- several files ---- */

enum { ALIGNMENT = 32, HEADER = 24, COUNT = 8, PAIRS = 16 };

static size_t aligned(size_t n) {
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Where a file describes a tensor: its name behind the name's length. */
static size_t find_entry(const char *bytes, size_t size, const char *name) {
    uint64_t len = strlen(name);
    for (size_t at = HEADER; at + sizeof len + len < size; at++)
        if (memcmp(bytes + at, &len, sizeof len) == 0 &&
            memcmp(bytes + at + sizeof len, name, len) == 0)
            return at;
    fail_msg("no %s", name);
    return 0;
}

static void write_part(const char *path, const char *head, size_t head_bytes, const char *data,
                       size_t bytes) {
    char *file = calloc(1, aligned(head_bytes) + bytes);
    assert_non_null(file);
    memcpy(file, head, head_bytes);
    memcpy(file + aligned(head_bytes), data, bytes);
    test_write_file(path, file, aligned(head_bytes) + bytes);
    free(file);
}

/* Writes a model as two files, of which the second has the last tensor. */
static void write_parts(char *bytes, size_t size, const char *const paths[2]) {
    mc_gguf *g;
    assert_int_equal(mc_gguf_parse(bytes, size, "source", &g), MICA_OK);
    uint64_t count = mc_gguf_count(g), one = 1, none = 0;
    const mc_gguf_tensor *first = mc_gguf_at(g, 0), *last = mc_gguf_at(g, count - 1);
    const char *data = first->data;
    size_t entry = find_entry(bytes, size, last->name);
    size_t entry_bytes =
        sizeof(uint64_t) * (size_t)(2 + last->ndim) + sizeof(uint32_t[2]) + strlen(last->name);
    char head[256] = {0};
    assert_true(HEADER + entry_bytes < sizeof head);
    memcpy(head, bytes, COUNT);
    memcpy(head + COUNT, &one, sizeof one);
    memcpy(head + HEADER, bytes + entry, entry_bytes);
    memcpy(head + HEADER + entry_bytes - sizeof none, &none, sizeof none); /* where its data is */
    write_part(paths[1], head, HEADER + entry_bytes, last->data, last->bytes);
    count--;
    memcpy(bytes + COUNT, &count, sizeof count);
    write_part(paths[0], bytes, entry, data, (size_t)((const char *)last->data - data));
    mc_gguf_close(&g);
}

static void test_parts(void **state) {
    (void)state;
    static const char *const names[] = {"model.safetensors", "config.json", "tokenizer.json"};
    char *first = test_format("%s/x-00001-of-00002.gguf", dir);
    char *second = test_format("%s/x-00002-of-00002.gguf", dir);
    size_t size, n;
    char *bytes = test_read_file(source, &size);
    write_parts(bytes, size, (const char *const[]){first, second});
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *want = convert(source, names[i], &size);
        char *got = convert(i % 2 ? second : first, names[i], &n);
        assert_int_equal(n, size);
        assert_memory_equal(got, want, n);
        free(want);
        free(got);
    }
    free(bytes);
    free(first);
    free(second);
}

/* ---- several processes ---- */

typedef struct child {
    pid_t id;
    int told, held; /* read: it runs, and it begins to convert; written: it goes on */
} child;

typedef struct gate {
    int tell, wait;
    bool open;
} gate;

/* Says that it converts, and waits to be let on. */
static void pause_once(void *user, uint64_t done, uint64_t total) {
    gate *g = user;
    char byte = 1;
    (void)done, (void)total;
    if (g->open) return;
    g->open = true;
    if (write(g->tell, &byte, 1) != 1 || read(g->wait, &byte, 1) < 0) _exit(3);
}

/* Its status is 0 if it found or made the folder. */
static child start(void) {
    int told[2], held[2];
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(held), 0);
    pid_t id = fork();
    assert_true(id >= 0);
    if (id == 0) {
        gate g = {.tell = told[1], .wait = held[0]};
        const mica_gguf_options options = {
            .cache = cache, .threads = 1, .progress = pause_once, .progress_user = &g};
        char *folder;
        char byte = 1;
        close(told[0]);
        close(held[1]);
        if (write(told[1], &byte, 1) != 1) _exit(3);
        _exit(mica_gguf_folder(source, &options, &folder) != MICA_OK);
    }
    char byte;
    close(told[1]);
    close(held[0]);
    assert_int_equal(read(told[0], &byte, 1), 1);
    return (child){.id = id, .told = told[0], .held = held[1]};
}

/* Whether a process converts: waits until it does, or has ended. */
static bool converts(const child *c) {
    char byte;
    return read(c->told, &byte, 1) == 1;
}

static int end(child *c) {
    int status;
    char byte = 1;
    ssize_t n = write(c->held, &byte, 1); /* other children hold the pipe, too: it does not end */
    (void)n;
    close(c->held);
    close(c->told);
    assert_int_equal(waitpid(c->id, &status, 0), c->id);
    return status;
}

static size_t count_models(void) {
    mica_model_list *list;
    if (access(cache, F_OK) != 0) return 0;
    assert_int_equal(mica_discover(cache, &list), MICA_OK);
    size_t count = list->count;
    mica_model_list_free(&list);
    return count;
}

static void test_two_at_once(void **state) {
    (void)state;
    int status;
    child a = start();
    assert_true(converts(&a));
    child b = start();
    assert_int_equal(waitpid(b.id, &status, WNOHANG), 0);
    assert_int_equal(count_models(), 0);
    assert_int_equal(end(&a), 0);
    assert_false(converts(&b));
    assert_int_equal(end(&b), 0);
    assert_int_equal(count_models(), 1);
}

/* What is left: the folder and the lock, of which one alone is seen. */
static void test_killed(void **state) {
    (void)state;
    size_t size;
    char *files = test_format("%s/files", cache);
    child a = start();
    assert_true(converts(&a));
    kill(a.id, SIGKILL);
    int killed = end(&a);
    assert_true(WIFSIGNALED(killed));
    assert_int_equal(count_models(), 0);
    child b = start();
    assert_true(converts(&b));
    assert_int_equal(end(&b), 0);
    assert_int_equal(count_models(), 1);
    assert_int_equal(test_count_entries(files), 2);
    free(convert(source, "config.json", &size));
    free(files);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

/* The last one computes in this process, which forks no more then. */
int main(void) {
    signal(SIGPIPE, SIG_IGN); /* the one that is killed is written to */
    const struct CMUnitTest tests[] = {TEST(test_two_at_once), TEST(test_killed), TEST(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

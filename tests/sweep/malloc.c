/* The command while the n-th malloc fails, it alone, and it with all after it. It says so and exits
 * with 1, or does as if nothing had been; it is not killed and does not hang. */
#define _XOPEN_SOURCE 700
#include "support/support.h"

#include "session/session_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 16384, MAX_ARGS = 16, PATIENCE = 120 /* seconds */ };

static uint64_t stride = 4; /* every so many allocations; the argument, 1 for all */
static char *dir; /* "model", a folder with a chat template; "input"; what the command prints */

/* What the command saves there. */
typedef struct saved {
    char *text, *cache; /* NULL: not there */
    size_t text_bytes, cache_bytes;
} saved;

static saved before; /* each run */

typedef struct outcome {
    int status;  /* of wait */
    bool failed; /* an allocation */
    char out[OUTPUT], err[OUTPUT];
} outcome;

static void redirect(const char *name, int flags, int fd) {
    int opened = open(name, flags | O_CLOEXEC, 0600);
    if (opened < 0 || dup2(opened, fd) != fd) _exit(99);
}

static void write_below(const char *name, const void *data, size_t bytes) {
    char *path = test_format("%s/%s", dir, name);
    if (data) test_write_file(path, data, bytes);
    free(path);
}

static char *read_below(const char *name, size_t *bytes) {
    char *path = test_format("%s/%s", dir, name);
    char *data = access(path, F_OK) == 0 ? test_read_file(path, bytes) : NULL;
    free(path);
    return data;
}

static saved read_saved(void) {
    saved s = {0};
    s.text = read_below("kept", &s.text_bytes);
    s.cache = read_below("kept.cache", &s.cache_bytes);
    return s;
}

static void free_saved(saved *s) {
    free(s->text);
    free(s->cache);
    *s = (saved){0};
}

/* Runs `mica ARGS...` in the folder while allocation n fails. */
static void run(char *const args[], uint64_t n, bool rest, outcome *o) {
    int told[2], told_fd = 20;
    memset(o, 0, sizeof *o);
    write_below("kept", before.text, before.text_bytes);
    write_below("kept.cache", before.cache, before.cache_bytes);
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char number[32];
        snprintf(number, sizeof number, "%llu", (unsigned long long)n);
        if (chdir(dir) != 0 || dup2(told[1], told_fd) != told_fd) _exit(99);
        redirect("input", O_RDONLY, STDIN_FILENO);
        redirect("out", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
        redirect("err", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
        setenv("LD_PRELOAD", FAIL_MALLOC, 1);
        setenv("FAIL_MALLOC_AT", number, 1);
        setenv("FAIL_MALLOC_FD", "20", 1);
        if (rest) setenv("FAIL_MALLOC_REST", "1", 1);
        close(told[0]);
        close(told[1]);
        alarm(PATIENCE); /* who hangs is killed */
        execv(test_command(), args);
        _exit(99);
    }
    close(told[1]);
    assert_int_equal(waitpid(child, &o->status, 0), child);
    char byte;
    o->failed = read(told[0], &byte, 1) == 1;
    close(told[0]);
    char *out = read_below("out", NULL), *err = read_below("err", NULL);
    strncpy(o->out, out, OUTPUT - 1);
    strncpy(o->err, err, OUTPUT - 1);
    free(out);
    free(err);
}

/* What was printed but for the times before a JSON object's last member. */
static const char *printed(const outcome *o) {
    const char *last = strstr(o->out, "\"logprobs\"");
    return last ? last : o->out;
}

static void check(const outcome *o, const outcome *plain, uint64_t n, bool rest) {
    const char *how = rest ? " and all after it" : "";
    if (!WIFEXITED(o->status))
        fail_msg("allocation %llu%s: killed by signal %d: %s", (unsigned long long)n, how,
                 WTERMSIG(o->status), o->err);
    int code = WEXITSTATUS(o->status);
    if (code != 0 && code != 1)
        fail_msg("allocation %llu%s: exit %d: %s", (unsigned long long)n, how, code, o->err);
    if (code == 1 && !strstr(o->err, "mica: "))
        fail_msg("allocation %llu%s: exit 1 without a word", (unsigned long long)n, how);
    if (code == 0 && strcmp(printed(o), printed(plain)) != 0)
        fail_msg("allocation %llu%s: exit 0 and \"%s\", not \"%s\"", (unsigned long long)n, how,
                 o->out, plain->out);
}

static bool is_same(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    return !a == !b && a_bytes == b_bytes && (!a || memcmp(a, b, a_bytes) == 0);
}

/* Caches that were read anew hold other entries than those that were loaded: their checksum
 * tells. */
static bool is_whole(const char *cache, size_t bytes) {
    uint64_t sum;
    if (bytes < sizeof sum) return false;
    memcpy(&sum, cache + bytes - sizeof sum, sizeof sum);
    return mc_session_checksum(cache, bytes - sizeof sum) == sum;
}

/* The path holds the old or the new contents, and no file is left beside it. */
static void check_saved(const saved *after, size_t entries, uint64_t n) {
    saved now = read_saved();
    if (!is_same(now.text, now.text_bytes, before.text, before.text_bytes) &&
        !is_same(now.text, now.text_bytes, after->text, after->text_bytes))
        fail_msg("allocation %llu: the conversation is no whole one", (unsigned long long)n);
    if (now.cache && !is_whole(now.cache, now.cache_bytes))
        fail_msg("allocation %llu: the caches are no whole ones", (unsigned long long)n);
    if (test_count_entries(dir) != entries)
        fail_msg("allocation %llu: something is left behind", (unsigned long long)n);
    free_saved(&now);
}

/* Every stride-th n, up to the first that is not reached. */
static void sweep(char *const args[]) {
    static outcome plain, o;
    for (int rest = 0; rest < 2; rest++) {
        run(args, 0, false, &plain);
        if (!WIFEXITED(plain.status) || WEXITSTATUS(plain.status) != 0)
            fail_msg("fails as it is: %s", plain.err);
        saved after = read_saved();
        size_t entries = test_count_entries(dir);
        uint64_t n = 1;
        for (o.failed = true; o.failed; n += stride) {
            run(args, n, rest, &o);
            check(&o, &plain, n, rest);
            check_saved(&after, entries, n);
        }
        assert_true(n > 300); /* it has counted the command's */
        free_saved(&after);
    }
}

static void test_run(void **state) {
    (void)state;
    char *args[] = {"mica", "run", "--model",   "model", "a b", "-q",
                    "-n",   "3",   "--threads", "2",     NULL};
    sweep(args);
}

static void test_json(void **state) {
    (void)state;
    char *args[] = {"mica", "run",       "--model", "model",  "a b",        "-q", "-n",
                    "2",    "--threads", "1",       "--json", "--logprobs", "2",  NULL};
    sweep(args);
}

/* The conversation and its caches are loaded and saved. */
static void test_session(void **state) {
    (void)state;
    char *args[] = {"mica",      "chat", "model",     "-q", "-n", "2",
                    "--session", "kept", "--threads", "1",  NULL};
    static outcome first;
    run(args, 0, false, &first);
    before = read_saved();
    assert_non_null(before.cache);
    sweep(args);
    free_saved(&before);
}

static int open_model(void **state) {
    (void)state;
    static const char template[] =
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %}";
    dir = test_temp_dir();
    char *model = test_format("%s/model", dir), *input = test_format("%s/input", dir);
    char *fixture = test_format("%s/models/llama3_rope_sharded", test_fixtures_dir());
    test_list files = test_list_files(fixture, "");
    assert_int_equal(mkdir(model, 0700), 0);
    for (size_t i = 0; i < files.count; i++) {
        char *from = test_format("%s/%s", fixture, files.names[i]);
        char *to = test_format("%s/%s", model, files.names[i]);
        test_copy_file(from, to);
        free(from);
        free(to);
    }
    test_list_free(&files);
    free(fixture);
    test_write_below(dir, "model/chat_template.jinja", template);
    test_write_file(input, "a\n", 2);
    free(model);
    free(input);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    test_temp_dir_remove(dir);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) stride = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_session),
    };
    return cmocka_run_group_tests_name("sweep/malloc", tests, open_model, close_model);
}

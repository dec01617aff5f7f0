#define _DEFAULT_SOURCE
#include "engine/fake_bridge.h"

#include "base/json.h"
#include "support/support.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What it does is WHEN-WHAT. WHEN is check, load or answer (behind two tokens). WHAT:
 *   dies     ends with status 3, with a word on standard error
 *   killed   is killed by a signal
 *   silent   says nothing any more
 *   rubbish  prints what is not a reply
 *   half     ends in the middle of a line
 *   error    replies an error
 *   babbles  prints without a line feed and an end
 *   wails    writes to standard error without an end
 *   repeats  tells the same progress again and again
 *   strange  replies to another request
 *   gives    gives alternatives that were not asked for
 *   hurries  has computed more of the prompt than there is
 * Or it is
 *   endless   an answer ends only when it is cancelled
 *   deaf      the same, but it hears of nothing
 *   stubborn  it does not end when it is told to */
static const char *mode;
static char line[1 << 20];

static bool is(const char *name) {
    return strcmp(mode, name) == 0;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void write_endlessly(int fd) {
    static char many[4096];
    memset(many, 'x', sizeof many);
    while (write(fd, many, sizeof many) > 0) {}
    exit(4);
}

/* Fails, if it is to, at this time. Returns whether that was the reply. */
static bool misbehave(const char *when, long long id) {
    size_t n = strlen(when);
    if (strncmp(mode, when, n) != 0 || mode[n] != '-') return false;
    const char *what = mode + n + 1;
    if (strcmp(what, "dies") == 0) {
        fprintf(stderr, "it hurts \x1b[1m\xff\n");
        exit(3);
    }
    if (strcmp(what, "killed") == 0) test_die();
    if (strcmp(what, "silent") == 0)
        while (getchar() != EOF) {}
    if (strcmp(what, "silent") == 0) exit(0);
    if (strcmp(what, "rubbish") == 0) say("Hello \x1b[1m\xff!");
    if (strcmp(what, "half") == 0) {
        printf("{\"ok\": tr");
        exit(0);
    }
    if (strcmp(what, "error") == 0)
        say("{\"error\": \"no such thing\", \"kind\": \"missing\", \"id\": %lld}", id);
    if (strcmp(what, "babbles") == 0) write_endlessly(1);
    if (strcmp(what, "wails") == 0) write_endlessly(2);
    while (strcmp(what, "repeats") == 0)
        say("{\"progress\": 1, \"total\": 2, \"id\": %lld}", id);
    if (strcmp(what, "gives") == 0)
        say("{\"token_id\": 1, \"top\": [[1, -1], [2, -2]], \"id\": %lld}", id);
    if (strcmp(what, "hurries") == 0) say("{\"progress\": 4, \"total\": 4, \"id\": %lld}", id);
    if (strcmp(what, "strange") == 0) say("{\"token_id\": 1, \"id\": %lld}", id + 1);
    return strcmp(what, "error") == 0;
}

/* Reads a line and parses it; NULL: the end. */
static mc_json_doc *read_request(void) {
    const char *path = getenv("FAKE_BRIDGE_LOG");
    mc_json_doc *request = NULL;
    if (!fgets(line, sizeof line, stdin)) return NULL;
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fputs(line, file);
        fclose(file);
    }
    if (mc_json_parse(line, strlen(line), "a request", &request) != MICA_OK) exit(5);
    return request;
}

static long long get(mc_json object, const char *key, long long otherwise) {
    int64_t value = otherwise;
    (void)mc_json_get_int(mc_json_find(object, key), &value);
    return value;
}

static bool has_command(const mc_json_doc *request, const char *name) {
    mc_str command = {"", 0};
    (void)mc_json_get_str(mc_json_find(mc_json_root(request), "cmd"), &command);
    return mc_str_is(command, name);
}

static bool hears_something(void) {
    struct pollfd fd = {.fd = 0, .events = POLLIN};
    return !is("deaf") && poll(&fd, 1, 0) > 0;
}

/* Whether the request is cancelled now. Another request than that comes too soon. */
static bool is_cancelled(long long id) {
    mc_json_doc *request = hears_something() ? read_request() : NULL;
    if (!request) return false;
    if (has_command(request, "quit")) exit(0);
    bool cancelled = has_command(request, "cancel");
    if (!cancelled || get(mc_json_root(request), "target", -1) != id) exit(6);
    mc_json_close(&request);
    return cancelled;
}

static void answer(mc_json request) {
    enum { ROOM = 4096 };
    int64_t ids[ROOM];
    long long id = get(request, "id", -1), max = get(request, "max_tokens", 0), n = 0, given = 0;
    bool endless = is("endless") || is("deaf"), cancelled = false;
    for (mc_json_iter it = mc_json_begin(mc_json_find(request, "prompt")); mc_json_next(&it);)
        if (n < ROOM) (void)mc_json_get_int(it.value, &ids[n++]);
    if ((max < 1 || max > 1000) && !endless) max = n;
    say("{\"progress\": 0, \"total\": %lld, \"id\": %lld}", n, id);
    say("{\"progress\": %lld, \"total\": %lld, \"id\": %lld}", n, n, id);
    while ((endless || given < max) && !(cancelled = is_cancelled(id))) {
        if (given == 2 && misbehave("answer", id)) return;
        long long token = ids[given % n];
        printf("{\"token\": \"?\", \"token_id\": %lld, \"logprob\": -0.25, ", token);
        if (get(request, "top_logprobs", 0) > 1)
            printf("\"top\": [[%lld, -0.25], [7, -2]], ", token);
        say("\"id\": %lld}", id);
        given++;
        if (endless) (void)poll(NULL, 0, 1);
    }
    say("{\"done\": true, \"finish\": \"%s\", \"reused_tokens\": 1, \"prefill_seconds\": 2.5, "
        "\"decode_seconds\": 0.5, \"active_bytes\": 1000, \"peak_bytes\": 2000, \"id\": %lld}",
        cancelled ? "cancelled" : "length", id);
}

static void load(mc_json request) {
    long long id = get(request, "id", -1);
    if (misbehave("load", id)) return;
    say("{\"ok\": true, \"model_type\": \"fake\\u001b\", \"vocab_size\": 8192, \"layers\": 3, "
        "\"dtype\": "
        "\"bf16\", \"bits\": 4, \"group_size\": 64, \"weight_bytes\": 5000, \"id\": %lld}",
        id);
}

static int serve(void) {
    for (mc_json_doc *request; (request = read_request()) != NULL; mc_json_close(&request)) {
        if (has_command(request, "load")) load(mc_json_root(request));
        if (has_command(request, "generate")) answer(mc_json_root(request));
        if (has_command(request, "quit") && !is("stubborn")) break;
    }
    while (is("stubborn"))
        (void)poll(NULL, 0, 1000);
    return 0;
}

bool fake_bridge_is(int argc, char **argv) {
    return argc > 1 && strcmp(argv[1], "-u") == 0;
}

int fake_bridge_run(int argc, char **argv) {
    mode = getenv("FAKE_BRIDGE");
    if (!mode) mode = "";
    setvbuf(stdin, NULL, _IONBF, 0); /* poll sees all that was not read */
    test_set_binary();
    test_restore_signals();
    if (argc < 5 || strcmp(argv[4], "--check") != 0) return serve();
    if (!misbehave("check", 0)) say("{\"ok\": true}");
    return 0;
}

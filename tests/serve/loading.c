#define _POSIX_C_SOURCE 200809L
#include "loading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void link_model(const char *root, const char *name, const char *from) {
    test_list files = test_list_files(from, "");
    for (size_t i = 0; i < files.count; i++) {
        char *path = test_format("%s/%s", name, files.names[i]);
        test_write_below(root, path, ""); /* makes the folders */
        char *link = test_format("%s/%s", root, path),
             *to = test_format("%s/%s", from, files.names[i]);
        assert_int_equal(unlink(link), 0);
        if (test_has_links())
            assert_int_equal(symlink(to, link), 0);
        else
            test_copy_file(to, link);
        free(path);
        free(link);
        free(to);
    }
    test_list_free(&files);
}

const mica_model_options exact = {
    .struct_bytes = sizeof exact, .threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT};

fixture open_fixture(mica_loading_options options) {
    fixture f = {.root = test_temp_dir()};
    char *own = test_format("%s/default", test_models_dir());
    const char *names[] = {"default"}, *folders[] = {own}, *places[] = {f.root};
    for (const char *name = "abc"; *name; name++)
        link_model(f.root, (char[]){*name, '\0'}, own);
    link_model(f.root, "broken", own);
    char *weights = test_format("%s/broken/model.safetensors", f.root);
    assert_int_equal(unlink(weights), 0);
    test_write_below(f.root, "broken/model.safetensors", "nonsense");
    free(weights);
    options.struct_bytes = sizeof options;
    options.names = names;
    options.folders = folders;
    options.count = 1;
    options.places = places;
    options.place_count = 1;
    if (!options.model) options.model = &exact;
    assert_int_equal(mica_server_open(NULL, &f.server), MICA_OK);
    if (mica_server_load(f.server, &options) != MICA_OK) fail_msg("%s", mica_last_error());
    free(own);
    return f;
}

void close_fixture(fixture *f) {
    mica_server_close(&f->server);
    test_temp_dir_remove(f->root);
}

/* Whether an answer goes on as the golden does: "curl is a command line ...". */
bool is_golden(mc_json root) {
    mc_str text = MC_STR(""), want = text_at(golden(0), "text");
    mc_json_get_str(mc_json_find(root, "response"), &text);
    want = (mc_str){want.ptr + strlen("curl is"), want.len - strlen("curl is")};
    return text.len > 4 && mc_str_starts(want, text);
}

bool answers(const mica_server *server, const char *body) {
    mc_json_doc *doc = client_json(server, "POST", GENERATE, body, 200);
    bool same = is_golden(mc_json_root(doc));
    mc_json_close(&doc);
    return same;
}

void check_says(const mica_server *server, const char *body, int status, const char *text) {
    answer a = client_ask(server, "POST", GENERATE, body);
    if (a.status != status || !strstr(a.body, text)) fail_msg("%d %s", a.status, a.body);
    answer_free(&a);
}

long metric(const mica_server *server, const char *name) {
    answer a = client_ask(server, "GET", "/metrics", NULL);
    char *line = test_format("\n%s ", name), *at = strstr(a.body, line);
    assert_non_null(at);
    long value = strtol(at + strlen(line), NULL, 10);
    free(line);
    answer_free(&a);
    return value;
}

void running(const mica_server *server, char *out, size_t bytes, char expires[64]) {
    mc_json_doc *doc = client_json(server, "GET", "/api/ps", NULL, 200);
    size_t len = 0;
    out[0] = '\0';
    for (mc_json_iter it = mc_json_begin(at(mc_json_root(doc), "models")); mc_json_next(&it);) {
        len += (size_t)snprintf(out + len, bytes - len, "%.*s,",
                                MC_STR_ARG(text_at(it.value, "name")));
        snprintf(expires, 64, "%.*s", MC_STR_ARG(text_at(it.value, "expires_at")));
    }
    mc_json_close(&doc);
}

bool runs(const mica_server *server, const char *names) {
    char list[256], expires[64];
    running(server, list, sizeof list, expires);
    return strcmp(list, names) == 0;
}

void wait_until_runs(const mica_server *server, const char *names) {
    char list[256] = "", expires[64];
    for (int i = 0; i < CLIENT_PATIENCE; i++) {
        running(server, list, sizeof list, expires);
        if (strcmp(list, names) == 0) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    fail_msg("%s, not %s", list, names);
}

void wait_for_list(void) {
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL);
}

/* Reads any bytes as what a request brings. The first byte chooses: the body of an endpoint, whose
 * fields are read by its tables, or a head, whose path is looked up and which is checked. What is
 * refused has a status and a text, and is written as JSON in each API's form. */
#include "base/alloc.h"
#include "serve/common/generation.h"
#include "serve/http/endpoint.h"
#include "serve/http/guard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VALUES = 1 << 16, VOCAB = 8192 };

static void must(bool truth) {
    if (!truth) abort();
}

/* A refusal says something, and its forms are JSON. */
static void check_failure(const mc_failure *failure) {
    must(failure->status >= 400 && failure->status < 600 && failure->message[0]);
    for (int api = MC_API_OPENAI; api <= MC_API_OLLAMA; api++) {
        mc_buffer out = {0};
        mc_json_doc *doc;
        mc_put put = mc_put_into(&out);
        mc_failure_put(failure, (mc_api)api, "req_1", &put);
        must(!put.failed && mc_json_parse(out.data, out.len, "failure", &doc) == MICA_OK);
        mc_json_close(&doc);
        mc_buffer_deinit(&out);
    }
}

/* The number-th endpoint that has a body. */
static const mc_endpoint *endpoint_at(size_t number) {
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        const mc_endpoint_list *list;
        size_t seen = 0;
        for (size_t l = 0; (list = mc_endpoint_list_at(l)); l++)
            for (size_t i = 0; i < list->count; i++) {
                if (!list->endpoints[i].tables[0].fields) continue;
                if (round == 1 && seen == number % count) return &list->endpoints[i];
                seen++;
            }
        count = seen;
    }
    return NULL;
}

/* What an answer's options become of the fields that say so. */
static void read_generation(const mc_endpoint *endpoint, const char *values) {
    for (size_t t = 0; t < MC_FIELD_TABLES && endpoint->tables[t].fields; t++) {
        if (endpoint->tables[t].fields != mc_generation_fields) continue;
        mc_generation generation;
        mica_generate_options options;
        mc_failure failure = {0};
        mc_arena arena = {0};
        memcpy(&generation, values + endpoint->tables[t].offset, sizeof generation);
        if (!mc_generation_options(&generation, VOCAB, &arena, &options, &failure))
            check_failure(&failure);
        mc_arena_deinit(&arena);
    }
}

static void read_body(size_t number, const char *text, size_t len) {
    const mc_endpoint *endpoint = endpoint_at(number);
    mc_failure failure = {0};
    mc_json_doc *doc = NULL;
    char *values = mc_calloc(1, VALUES);
    must(values != NULL);
    mica_status status = mc_json_parse(text, len, "the body", &doc);
    if (status != MICA_OK)
        mc_failure_of(&failure, status, NULL);
    else if (mc_fields_read(endpoint->tables, mc_json_root(doc), values, &failure))
        read_generation(endpoint, values);
    if (failure.status) check_failure(&failure);
    mc_json_close(&doc);
    mc_free(values);
}

/* Lines: the path, then "Name: value". */
static void read_head(char *text) {
    static const char *const keys[] = {"sesame"}, *const origins[] = {"https://a.example"};
    mica_server_options options = {.api_keys = keys, .origins = origins, .origin_count = 1};
    mc_head head = {0};
    const char *tail, *path = text;
    char *line = strchr(text, '\n');
    if (line) *line++ = '\0';
    mc_failure failure = {0};
    if (!mc_endpoint_find("POST", path, &tail, &failure)) check_failure(&failure);
    while (line) {
        char *next = strchr(line, '\n'), *colon;
        if (next) *next++ = '\0';
        colon = strchr(line, ':');
        if (colon) *colon++ = '\0';
        mc_head_add(&head, line, colon);
        line = next;
    }
    for (size_t n = 0; n < 2; n++) {
        mc_guard guard;
        size_t key;
        options.api_key_count = n;
        failure = (mc_failure){0};
        must(mc_guard_open(&guard, &options, false) == MICA_OK);
        if (!mc_guard_check(&guard, &head, false, &key, &failure)) check_failure(&failure);
        mc_guard_close(&guard);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    char *text = mc_strndup((const char *)data + 1, size - 1);
    must(text != NULL);
    if (data[0] == 255)
        read_head(text);
    else
        read_body(data[0], text, size - 1);
    mc_free(text);
    return 0;
}

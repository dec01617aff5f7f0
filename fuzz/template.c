/* Input: a chat template, a NUL, and a JSON object of its variables. A template that parses renders
 * to UTF-8, or to an error with a text that leaves the output unchanged. The same holds if
 * allocations fail. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VARIABLES = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

static void render(const mc_jinja *t, const mc_json_doc *doc) {
    const struct tm now = {.tm_year = 125, .tm_mon = 2, .tm_mday = 9};
    mc_jinja_variable variables[MAX_VARIABLES];
    mc_json none = {0};
    mc_buffer out = {0};
    size_t n = 0;
    mc_json_iter it = mc_json_begin(doc ? mc_json_root(doc) : none);
    for (; n < MAX_VARIABLES && mc_json_next(&it); n++)
        variables[n] = (mc_jinja_variable){.name = it.key, .json = it.value};
    bool kept = mc_buffer_add_text(&out, "kept");
    mica_status status = mc_jinja_render(t, variables, n, &(mc_jinja_options){.now = &now}, &out);
    must(status == MICA_OK || (*mica_last_error() && out.len == (kept ? 4 : 0)));
    must(!kept || memcmp(out.data, "kept", 4) == 0);
    must(!out.len || mc_utf8_valid(out.data, out.len));
    mc_buffer_deinit(&out);
}

static void run(mc_str source, mc_str json) {
    mc_jinja *t = NULL;
    mc_json_doc *doc = NULL;
    mica_status status = mc_jinja_parse(source, "fuzz", &t);
    must(status == MICA_OK ? t != NULL : !t && *mica_last_error());
    if (t && mc_json_parse(json.ptr, json.len, "fuzz", &doc) != MICA_OK) doc = NULL;
    if (t) render(t, doc);
    mc_json_close(&doc);
    mc_jinja_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *end = size ? memchr(text, '\0', size) : NULL;
    size_t len = end ? (size_t)(end - text) : size;
    mc_str source = {text, len}, json = {end ? end + 1 : "", end ? size - len - 1 : 0};
    run(source, json);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 32);
    run(source, json);
    mc_alloc_fail_at(0);
    return 0;
}

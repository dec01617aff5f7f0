/* Reads any JSON as the fields of a request that say what its answer may be, in the shapes of chats
 * and of responses: the result is a failure that names one, or a form whose tools are read, or
 * refused in their turn. */
#include "serve/openai/form.h"

#include "base/alloc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A member, where it has one of the types that the tables of fields let through. */
static mc_json member(mc_json root, const char *name, mc_json_type one, mc_json_type other) {
    mc_json value = mc_json_find(root, name);
    mc_json_type type = mc_json_get_type(value);
    return type == one || type == other ? value : (mc_json){0};
}

static void read(mc_json root, mc_openai_shape shape) {
    mc_openai_wish wish = {
        .shape = shape,
        .tools = member(root, "tools", MC_JSON_ARRAY, MC_JSON_ARRAY),
        .choice = member(root, "tool_choice", MC_JSON_STRING, MC_JSON_OBJECT),
        .format = member(root, "format", MC_JSON_OBJECT, MC_JSON_OBJECT),
        .json = member(root, "json", MC_JSON_STRING, MC_JSON_OBJECT),
        .choices = member(root, "choice", MC_JSON_ARRAY, MC_JSON_ARRAY),
        .budget = -1,
    };
    mc_answer_form form = {.limited = false};
    mc_failure failure = {0};
    mc_json_get_str(mc_json_find(root, "regex"), &wish.regex);
    bool done = mc_openai_form_read(&wish, &form, &failure);
    if (done == (failure.status != 0)) abort();
    if (done && form.tools_text.len) {
        mica_status status = mc_tools_read(form.tools_text.data, form.tools_text.len, &form.tools);
        if (status != MICA_OK && !*mica_last_error()) abort();
    }
    mc_answer_form_deinit(&form);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mc_json_doc *doc;
    if (mc_json_parse(size ? (const char *)data : "", size, "fuzz", &doc) != MICA_OK) return 0;
    mc_json root = mc_json_root(doc);
    read(root, MC_OPENAI_CHAT);
    read(root, MC_OPENAI_RESPONSES);
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    read(root, size % 2 ? MC_OPENAI_CHAT : MC_OPENAI_RESPONSES);
    mc_alloc_fail_at(0);
    mc_json_close(&doc);
    return 0;
}

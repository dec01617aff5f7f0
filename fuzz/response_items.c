/* Reads any JSON as the input of a response: the result is a failure that names it, or messages
 * that the reader of conversations takes, or refuses in its turn. */
#include "serve/response_items.h"

#include "base/alloc.h"
#include "text/chat/chat_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read(mc_json input) {
    mc_buffer messages = {0}, array = {0};
    mc_failure failure = {0};
    const mc_response_seal seal = {.key = NULL};
    bool done = mc_response_items_read(input, &seal, &messages, &failure);
    if (done == (failure.status != 0)) abort();
    if (done && mc_buffer_add_byte(&array, '[') &&
        mc_buffer_add(&array, messages.data, messages.len) && mc_buffer_add_byte(&array, ']')) {
        mc_chat_json conversation;
        memset(&conversation, 0, sizeof conversation);
        mica_status status =
            mc_chat_json_read(array.data, array.len, MC_ARGUMENTS_OBJECT, true, &conversation);
        if (status != MICA_OK && !*mica_last_error()) abort();
        mc_chat_json_deinit(&conversation);
    }
    mc_buffer_deinit(&messages);
    mc_buffer_deinit(&array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mc_json_doc *doc;
    if (mc_json_parse(size ? (const char *)data : "", size, "fuzz", &doc) != MICA_OK) return 0;
    read(mc_json_root(doc));
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    read(mc_json_root(doc));
    mc_alloc_fail_at(0);
    mc_json_close(&doc);
    return 0;
}

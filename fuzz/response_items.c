/* Reads any JSON as the input of a response: the result is a failure that names it, or messages
 * that the reader of conversations takes, or refuses in its turn. */
#include "serve/openai/response_items.h"

#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read(mc_json input) {
    mc_buffer messages = {0}, array = {0};
    mc_failure failure = {0};
    const mc_response_seal seal = {.key = NULL};
    bool done = mc_response_items_read(input, &seal, &messages, &failure);
    if (done == (failure.status != 0)) abort();
    if (done && mc_buffer_add_byte(&array, '[') &&
        mc_buffer_add(&array, messages.data, messages.len) && mc_buffer_add_byte(&array, ']'))
        fuzz_conversation(&array);
    mc_buffer_deinit(&messages);
    mc_buffer_deinit(&array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_json(data, size, read);
}

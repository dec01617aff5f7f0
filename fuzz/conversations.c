/* Reads any JSON as a conversation of Anthropic's and of ollama's APIs: the result is a failure
 * that names a place, or messages that the reader of conversations takes or refuses in turn. */
#include "serve/anthropic/conversation.h"
#include "serve/ollama/ollama.h"

#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool done, const mc_failure *failure, const mc_buffer *messages) {
    if (done == (failure->status != 0)) abort();
    if (done) fuzz_conversation(messages);
}

static void read(mc_json root) {
    mc_json system = mc_json_find(root, "system"), messages = mc_json_find(root, "messages");
    mc_buffer out = {0};
    mc_failure failure = {0};
    bool continues;
    bool done = mc_anthropic_conversation(system, messages, &out, &continues, &failure);
    check(done, &failure, &out);
    mc_buffer_clear(&out);
    failure = (mc_failure){0};
    done = mc_ollama_messages(messages, &out, &continues, &failure);
    check(done, &failure, &out);
    mc_buffer_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_json(data, size, read);
}

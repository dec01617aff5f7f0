/* Reads any JSON as a conversation of Anthropic's and of ollama's APIs: the result is a failure
 * that names a place, or messages that the reader of conversations takes or refuses in turn. */
#include "serve/anthropic_conversation.h"
#include "serve/ollama.h"

#include "base/alloc.h"
#include "text/chat/chat_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool done, const mc_failure *failure, const mc_buffer *messages) {
    mc_chat_json conversation;
    if (done == (failure->status != 0)) abort();
    if (!done) return;
    memset(&conversation, 0, sizeof conversation);
    mica_status status =
        mc_chat_json_read(messages->data, messages->len, MC_ARGUMENTS_OBJECT, true, &conversation);
    if (status != MICA_OK && !*mica_last_error()) abort();
    mc_chat_json_deinit(&conversation);
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
    mc_json_doc *doc;
    if (mc_json_parse(size ? (const char *)data : "", size, "fuzz", &doc) != MICA_OK) return 0;
    read(mc_json_root(doc));
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    read(mc_json_root(doc));
    mc_alloc_fail_at(0);
    mc_json_close(&doc);
    return 0;
}

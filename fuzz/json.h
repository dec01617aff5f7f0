/* For targets that read any JSON as what some API has of a conversation. */
#ifndef FUZZ_JSON_H
#define FUZZ_JSON_H

#include "base/alloc.h"
#include "base/json.h"
#include "text/chat/chat_json.h"

#include <stdlib.h>
#include <string.h>

/* Reads the input, and once more without memory from an allocation on that its last byte says. */
static inline int fuzz_json(const uint8_t *data, size_t size, void (*read)(mc_json root)) {
    mc_json_doc *doc;
    if (mc_json_parse(size ? (const char *)data : "", size, "fuzz", &doc) != MICA_OK) return 0;
    read(mc_json_root(doc));
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    read(mc_json_root(doc));
    mc_alloc_fail_at(0);
    mc_json_close(&doc);
    return 0;
}

/* Messages that one of the APIs took: the reader of conversations takes them, or says why not. The
 * last one is continued, too, in a prompt that is all of them. */
static inline void fuzz_conversation(const mc_buffer *messages) {
    for (int continues = 0; continues < 2; continues++) {
        mc_chat_json conversation;
        mc_buffer prompt = {0};
        memset(&conversation, 0, sizeof conversation);
        mica_status status = mc_chat_json_read(messages->data, messages->len, MC_ARGUMENTS_OBJECT,
                                               true, continues, &conversation);
        if (status == MICA_OK && continues &&
            mc_buffer_add(&prompt, conversation.json.data, conversation.json.len))
            status = mc_chat_json_cut(&conversation, &prompt);
        if (status != MICA_OK && !*mica_last_error()) abort();
        mc_buffer_deinit(&prompt);
        mc_chat_json_deinit(&conversation);
    }
}

#endif

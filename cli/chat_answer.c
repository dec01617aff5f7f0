#include "chat.h"

#include "report.h"
#include "verb.h"

#include <stdlib.h>

void cli_chat_answer(cli_chat *c, const char *message) {
    cli_conversation *conversation = &c->conversation;
    cli_text kept = {0};
    mica_stream *stream = NULL;
    mica_generate_options options = cli_answer_generate_options(&c->values);
    if (c->variables.len > 0) options.template_variables = c->variables.data;
    if (!cli_conversation_add(conversation, "user", message)) {
        c->failed = true;
        return;
    }
    cli_answer_print_options(&c->values, &options);
    mica_status status =
        mica_chat(c->session, conversation->messages, conversation->count, &options, &stream);
    int code = CLI_FAILED;
    if (status == MICA_OK)
        code =
            cli_answer_print(&stream, mica_model_tokenizer(c->model), &c->values, &kept, &c->used);
    else
        cli_fail_status(status);
    if (status == MICA_ECONTEXT) cli_hint("Or type /clear, which forgets the conversation.");

    /* What was printed was said, also where it was interrupted. */
    if (code == CLI_FAILED ||
        !cli_conversation_add(conversation, "assistant", kept.data ? kept.data : "")) {
        cli_conversation_drop(conversation);
        c->failed = true;
    } else if (c->file) {
        c->unkept = !cli_conversation_save(conversation, c->file, false);
        c->failed |= c->unkept;
    }
    free(kept.data);
}

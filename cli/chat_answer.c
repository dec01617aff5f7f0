#include "chat.h"
#include "info.h"

#include "report.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

/* ---- fitting the context ---- */

/* Number of system messages, 0 or 1. The system message is never left out. */
static size_t system_messages(const cli_chat *c) {
    return cli_conversation_system(&c->conversation) ? 1 : 0;
}

/* Opens the stream of an answer, or counts the tokens of its prompt if `stream` is NULL. The prompt
 * is the system message and all others but the oldest `left_out` ones. */
static mica_status use_prompt(const cli_chat *c, size_t left_out,
                              const mica_generate_options *options, mica_stream **stream,
                              size_t *tokens) {
    const cli_conversation *all = &c->conversation;
    mica_message *first = all->messages + left_out, kept = *first;
    size_t count = all->count - left_out;
    if (system_messages(c))
        *first = all->messages[0]; /* replaces a message that is left out,
                                                          until the call returns */
    mica_status status =
        stream ? mica_chat(c->session, first, count, options, stream)
               : mica_model_render(c->model, first, count, options, NULL, NULL, NULL, tokens);
    *first = kept;
    return status;
}

/* Counts the tokens of that prompt, which may exceed the context. */
static mica_status count_tokens(const cli_chat *c, size_t left_out,
                                const mica_generate_options *options, int64_t *tokens) {
    size_t n;
    mica_status status = use_prompt(c, left_out, options, NULL, &n);
    *tokens = (int64_t)n;
    return status;
}

/* Finds the first user message from index `left_out` on, the system message excluded. At most, it
 * is the last message, which has no answer yet. */
static size_t next_turn(const cli_chat *c, size_t left_out) {
    size_t system = system_messages(c), last = c->conversation.count - system - 1;
    const mica_message *messages = c->conversation.messages + system;
    while (left_out < last && strcmp(messages[left_out].role, "user") != 0)
        left_out++;
    return left_out < last ? left_out : last;
}

/* Leaves out the oldest messages, by whole turns and as few as possible, so that the prompt has at
 * most `max` tokens. If no prompt is short enough, only the last message stays. */
static mica_status leave_out_turns(cli_chat *c, const mica_generate_options *options, int64_t max) {
    size_t low = c->left_out + 1, high = next_turn(c, SIZE_MAX);
    while (low < high) {
        size_t middle = low + (high - low) / 2, turn = next_turn(c, middle);
        int64_t tokens;
        mica_status status = count_tokens(c, turn, options, &tokens);
        if (status != MICA_OK) return status;
        if (tokens <= max)
            high = middle;
        else
            low = turn + 1;
    }
    c->left_out = next_turn(c, low);
    return MICA_OK;
}

/* Makes room in the context for an answer: max_tokens, else a quarter of the context, and half of
 * the context at most. If there is less room, turns are left out until half of the context is free.
 * So many at once, because then the whole prompt after the system message is computed again. An
 * answer ends at the end of the context, and pushes nothing out. */
static mica_status fit(cli_chat *c, mica_generate_options *options) {
    int64_t context = cli_model_info(c->model).context_length, tokens;
    int64_t room = options->max_tokens > 0 ? options->max_tokens : context / 4;
    if (room > context / 2) room = context / 2;
    mica_status status = count_tokens(c, c->left_out, options, &tokens);
    if (status == MICA_OK && tokens > context - room && c->left_out < next_turn(c, SIZE_MAX)) {
        status = leave_out_turns(c, options, context / 2);
        if (status == MICA_OK) status = count_tokens(c, c->left_out, options, &tokens);
        if (status == MICA_OK && !c->told_full)
            cli_hint("The context is full: the oldest messages are left out from now on. /show "
                     "tells how many.");
        c->told_full = true;
    }
    if (status != MICA_OK || tokens > context) return status;
    int64_t left = context - tokens + 1; /* the last token of an answer is never in the cache */
    if (options->max_tokens == 0 || options->max_tokens > left) options->max_tokens = left;
    if (options->min_tokens > left) options->min_tokens = left;
    return MICA_OK;
}

/* ---- answering ---- */

/* Answers the last message.  returns false after it reported an error */
static bool answer(cli_chat *c, cli_text *kept) {
    mica_stream *stream = NULL;
    mica_generate_options options = cli_answer_generate_options(&c->values);
    size_t left_out = c->left_out;
    mica_model_info info = cli_model_info(c->model);
    int code = CLI_FAILED;
    if (!cli_answer_check(&c->values, c->model)) return false;
    options.seed += c->again;
    if (c->variables.len > 0) options.template_variables = c->variables.data;
    cli_constraint_set(&c->constraint, &options);
    cli_answer_print_options(&c->values, &options);
    mica_status status = fit(c, &options);
    if (status == MICA_OK) status = use_prompt(c, c->left_out, &options, &stream, NULL);
    if (status == MICA_OK) {
        cli_answer_warn_of_forgotten(stream, info.context_length);
        code = cli_answer_print(&stream, c->model, &c->values, kept, &c->used);
    } else {
        cli_fail_status(status);
    }
    if (c->used > info.context_length) c->used = info.context_length;
    if (code == CLI_FAILED) c->left_out = left_out;
    return code != CLI_FAILED;
}

void cli_chat_answer(cli_chat *c, const char *message) {
    cli_conversation *conversation = &c->conversation;
    cli_text kept = {0};
    c->again = 0;
    if (!cli_conversation_add(conversation, "user", message)) {
        c->failed = true;
        return;
    }
    /* An interrupted answer counts as far as it was printed. */
    if (answer(c, &kept) &&
        cli_conversation_add(conversation, "assistant", kept.data ? kept.data : "")) {
        cli_chat_keep(c);
    } else {
        cli_conversation_drop(conversation);
        c->failed = true;
    }
    free(kept.data);
}

void cli_chat_answer_again(cli_chat *c) {
    cli_conversation *conversation = &c->conversation;
    cli_text kept = {0};
    size_t count = conversation->count;
    if (count == 0 || strcmp(conversation->messages[count - 1].role, "assistant") != 0) {
        cli_fail("there is no answer to repeat yet");
        c->failed = true;
        return;
    }
    if (c->values.temperature == 0)
        cli_hint("At temperature 0 an answer is always the same: try /set temperature 0.8");
    c->again++;
    conversation->count = count - 1; /* the old answer stays in the array, past the end */
    bool answered = answer(c, &kept);
    conversation->count = count;
    if (answered && cli_conversation_replace(conversation, kept.data ? kept.data : ""))
        cli_chat_keep(c);
    else
        c->failed = true;
    free(kept.data);
}

#include "parts.h"

#include "report.h"

#include <string.h>

/* Whether the first token of what begins a thought is a special one: the mark up to its bracket. */
static bool is_hidden(const mica_tokenizer *tok, const char *mark) {
    size_t len = strcspn(mark, ">]") + 1;
    int32_t id = len <= strlen(mark) ? mica_tokenizer_find(tok, mark, len) : -1;
    return id >= 0 && mica_tokenizer_is_special(tok, id);
}

bool cli_parts_open(cli_parts *parts, const mica_model *model) {
    mica_model_info info = {.struct_bytes = sizeof info};
    *parts = (cli_parts){0};
    mica_model_get_info(model, &info);
    if (!info.thought_mark || !is_hidden(mica_model_tokenizer(model), info.thought_mark))
        return true;
    mica_status status = mica_answer_open(model, NULL, &parts->answer);
    return status == MICA_OK || (cli_fail_status(status), false);
}

bool cli_parts_take(cli_parts *parts, const mica_token *token, cli_text *shown, cli_text *said) {
    mica_status status =
        token ? mica_answer_push_token(parts->answer, token) : mica_answer_end(parts->answer);
    size_t thoughts, text;
    if (status != MICA_OK) return cli_fail_status(status), false;
    const char *thought = mica_answer_thoughts(parts->answer, &thoughts);
    const char *saying = mica_answer_text(parts->answer, &text);
    bool done = true;
    if (thoughts > parts->thoughts && !parts->thoughts)
        done = cli_text_append(shown, "<think>\n", strlen("<think>\n"));
    done = done && cli_text_append(shown, thought + parts->thoughts, thoughts - parts->thoughts);
    if (text > parts->text && !parts->text && thoughts)
        done = done && cli_text_append(shown, "\n</think>\n\n", strlen("\n</think>\n\n"));
    done = done && cli_text_append(shown, saying + parts->text, text - parts->text);
    if (said) done = done && cli_text_append(said, saying + parts->text, text - parts->text);
    parts->thoughts = thoughts;
    parts->text = text;
    return done;
}

void cli_parts_close(cli_parts *parts) {
    mica_answer_close(&parts->answer);
}

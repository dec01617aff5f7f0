#include "batch_row.h"

#include "print.h"
#include "ui.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* How a row begins: "{"id": ", an id, and then one of three members. */
#define ROW_ID "{\"id\": "
#define ROW_TEXT ", \"text\": "
#define ROW_ERROR ", \"error\": "
#define ROW_CUSTOM ", \"custom_id\": "

static void print_own(FILE *out, const cli_batch_item *item, const mica_batch_row *result) {
    cli_print(out, ROW_ID "%s", item->id);
    if (result->status != MICA_OK) {
        cli_print(out, "%s", ROW_ERROR);
        cli_print_json(result->error, out);
    } else {
        cli_print(out, "%s", ROW_TEXT);
        cli_print_json_bytes(result->text, result->len, out);
        cli_print(out,
                  ", \"finish\": \"%s\", \"prompt_tokens\": %" PRId64 ", \"generated_tokens\": %zu",
                  mica_finish_name(result->finish), result->metrics->prompt_tokens, result->count);
    }
    fputs("}\n", out);
}

/* A chat.completion, or a text_completion. */
static void print_body(FILE *out, const cli_batch_item *item, const mica_batch_row *result,
                       const char *model) {
    bool chat = item->messages != NULL;
    int64_t prompt = result->metrics->prompt_tokens, answer = (int64_t)result->count;
    cli_print(out, "{\"id\": \"%s-%zu\", \"object\": \"%s\", \"created\": %lld, \"model\": ",
              chat ? "chatcmpl" : "cmpl", item->line, chat ? "chat.completion" : "text_completion",
              (long long)time(NULL));
    cli_print_json(item->model ? item->model : model, out);
    cli_print(out, ", \"choices\": [{\"index\": 0, %s",
              chat ? "\"message\": {\"role\": \"assistant\", \"content\": " : "\"text\": ");
    cli_print_json_bytes(result->text, result->len, out);
    cli_print(out,
              "%s, \"logprobs\": null, \"finish_reason\": \"%s\"}], \"usage\": {\"prompt_tokens\": "
              "%" PRId64 ", \"completion_tokens\": %" PRId64 ", \"total_tokens\": %" PRId64 "}}",
              chat ? "}" : "", mica_finish_name(result->finish), prompt, answer, prompt + answer);
}

static void print_openai(FILE *out, const cli_batch_item *item, const mica_batch_row *result,
                         const char *model) {
    cli_print(out, ROW_ID "\"batch_req_%zu\"" ROW_CUSTOM "%s, \"response\": ", item->line,
              item->id);
    if (result->status == MICA_OK) {
        cli_print(out,
                  "{\"status_code\": 200, \"request_id\": \"req_%zu\", \"body\": ", item->line);
        print_body(out, item, result, model);
        fputs("}, \"error\": null}\n", out);
        return;
    }
    bool request = result->status == MICA_EFORMAT || result->status == MICA_EINVAL ||
                   result->status == MICA_ECONTEXT;
    cli_print(out, "null, \"error\": {\"code\": \"%s\", \"message\": ",
              request ? "invalid_request" : "server_error");
    cli_print_json(result->error, out);
    fputs("}}\n", out);
}

void cli_batch_row_print(FILE *out, const cli_batch_item *item, const mica_batch_row *result,
                         const char *model) {
    if (item->openai)
        print_openai(out, item, result, model);
    else
        print_own(out, item, result);
}

bool cli_batch_row_is(const cli_json *json, bool *answered) {
    const cli_json_node *row = &json->nodes[0], *error = cli_json_find(json, row, "error");
    const cli_json_node *answer = cli_json_find(json, row, "response");
    if (!answer) answer = cli_json_find(json, row, "text");
    bool failed = error && error->kind != CLI_JSON_NULL;
    *answered = !failed && answer && cli_json_find(json, row, "id");
    return failed || *answered;
}

/* Whether two texts agree as far as the shorter one goes. */
static bool agree(const char *text, size_t len, const char *other) {
    size_t n = strlen(other);
    return memcmp(text, other, len < n ? len : n) == 0;
}

bool cli_batch_row_begins(const char *text, size_t len) {
    static const char *const members[] = {ROW_TEXT, ROW_ERROR, ROW_CUSTOM};
    size_t at = strlen(ROW_ID);
    if (!agree(text, len, ROW_ID)) return false;
    if (at < len && text[at] == '"') /* to the quote that ends it */
        for (at++; at < len && text[at] != '"'; at++)
            at += text[at] == '\\';
    while (at < len && text[at] != ',')
        at++;
    bool begins = at >= len;
    for (size_t i = 0; !begins && i < sizeof members / sizeof *members; i++)
        begins = agree(text + at, len - at, members[i]);
    return begins;
}

#include "talk.h"

#include "json.h"
#include "report.h"
#include "verb.h"

#include <string.h>

const cli_option cli_talk_options[CLI_TALK_OPTIONS] = {
    CLI_OPTION(TEXT, "system", cli_talk_values, system, .letter = 'S', .placeholder = "TEXT",
               .help = "the system message, which comes before the conversation"),
    CLI_OPTION(SWITCH, "think", cli_talk_values, think, .choices = "auto low medium high",
               .help =
                   "let the model think before it answers, or not, where its chat template can: "
                   "sets enable_thinking; --think=low, medium or high also sets reasoning_effort"),
    CLI_OPTION(TEXTS, "variable", cli_talk_values, variables, .placeholder = "NAME=VALUE",
               .help =
                   "set a variable of the chat template; VALUE is JSON or a text; may be repeated"),
    CLI_OPTION(FLAG, "history", cli_talk_values, history, .initial = "on",
               .help = "keep typed lines, and conversations that were not saved"),
};

static bool put(cli_text *out, const char *text) {
    return cli_text_append(out, text, strlen(text));
}

/* Adds a member to the object. value: JSON, or a text. */
static bool put_member(cli_text *out, const char *name, size_t name_len, const char *value) {
    const char *why;
    cli_json json = {0};
    bool is_json = cli_json_parse(&json, value, strlen(value), &why);
    cli_json_deinit(&json);
    return put(out, out->len > 0 ? ", " : "{") && cli_text_append_json(out, name, name_len) &&
           put(out, ": ") &&
           (is_json ? put(out, value) : cli_text_append_json(out, value, strlen(value)));
}

int cli_talk_variables(const cli_talk_values *values, const char *verb_name, cli_text *out) {
    static const char thinking[] = "enable_thinking";
    static const char effort[] = "reasoning_effort";
    static const char *const efforts[] = {"low", "medium", "high"};
    out->len = 0;
    if (values->think != 0 &&
        !put_member(out, thinking, strlen(thinking), values->think > 0 ? "true" : "false"))
        return CLI_FAILED;
    if (values->think >= CLI_SWITCH_CHOICE &&
        !put_member(out, effort, strlen(effort), efforts[values->think - CLI_SWITCH_CHOICE]))
        return CLI_FAILED;
    for (size_t i = 0; i < values->variables.count; i++) {
        const char *variable = values->variables.values[i];
        size_t len = strcspn(variable, "=");
        if (len == 0 || !variable[len])
            return cli_usage(verb_name, "--variable: '%s' is not NAME=VALUE", variable);
        if (!put_member(out, variable, len, variable + len + 1)) return CLI_FAILED;
    }
    return out->len == 0 || put(out, "}") ? CLI_DONE : CLI_FAILED;
}

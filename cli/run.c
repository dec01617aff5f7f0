/* mica run: one answer to one prompt, in the model's chat format. */
#include "chat.h"
#include "prompt.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>

typedef struct run_values {
    cli_prompt_values prompt;
    cli_talk_values talk;
} run_values;

/* The arguments of open_chat. */
typedef struct chat_form {
    const char *system, *prefill;
    cli_text variables; /* of the chat template, as JSON */
} chat_form;

static mica_status open_chat(mica_session *session, const cli_text *prompt,
                             const mica_generate_options *options, const void *user,
                             mica_stream **stream) {
    const chat_form *form = user;
    mica_message messages[3] = {{.role = "system", .content = form->system},
                                {.role = "user", .content = prompt->data},
                                {.role = "assistant", .content = form->prefill}};
    mica_generate_options of_chat = *options;
    int first = form->system ? 0 : 1, end = form->prefill ? 3 : 2;
    of_chat.continue_last = form->prefill;
    if (form->variables.len > 0) of_chat.template_variables = form->variables.data;
    return mica_chat(session, messages + first, (size_t)(end - first), &of_chat, stream);
}

/* Whether there is no prompt, and standard input is a terminal. model: receives the word that names
 * the model, or NULL. */
static bool is_chat(const cli_prompt_values *values, char **args, int count, const char **model) {
    const char *prompt;
    cli_model_split(values->model.model, args, count, model, &prompt);
    return cli_stdin_is_terminal() && !prompt && !values->prompt && !values->file && !values->json;
}

static int run(const void *verb_values, char **args, int count) {
    const run_values *values = verb_values;
    cli_chat_values chat = {.model = values->prompt.model,
                            .answer = values->prompt.answer,
                            .constraint = values->prompt.constraint,
                            .talk = values->talk};
    const char *model;
    const char *prefill = values->prompt.prefill;
    if (is_chat(&values->prompt, args, count, &model))
        return prefill ? cli_usage("run", "--prefill needs a prompt")
                       : cli_chat_run("run", &chat, model, NULL);
    chat_form form = {.system = values->talk.system,
                      .prefill = prefill && *prefill ? prefill : NULL};
    int code = cli_talk_variables(&values->talk, "run", &form.variables);
    if (code == CLI_DONE)
        code = cli_prompt_run("run", &values->prompt, args, count, open_chat, &form);
    free(form.variables.data);
    return code;
}

const cli_verb cli_verb_run = {
    .synopsis = "[MODEL] [PROMPT]",
    .details = "Puts PROMPT in the model's chat format and prints the answer. At a terminal, and\n"
               "without PROMPT, it is the same as mica chat.\n\n" CLI_JOINED_HELP(
                   "PROMPT") "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica run \"What is curl?\"\n"
                "  mica run ~/models/gemma-3-1b-it \"Write a haiku on disks\" -T 0.8 --seed 7\n"
                "  git diff | mica run \"Describe this change\"\n"
                "  mica run \"Summarise this letter\" --file letter.txt\n",
    .max_args = 3,
    .words = CLI_WORDS_FOLDERS,
    .ranks = CLI_RANKS_TOGETHER,
    .values_bytes = sizeof(run_values),
    .groups = {{"Prompt", cli_prompt_options, CLI_PROMPT_RUN, offsetof(run_values, prompt)},
               {"Conversation", cli_talk_options, CLI_TALK_OPTIONS, offsetof(run_values, talk)},
               {"Answer", cli_answer_options, CLI_ANSWER_OPTIONS,
                offsetof(run_values, prompt.answer)},
               {"Structured output", cli_constraint_options, CLI_CONSTRAINT_OPTIONS,
                offsetof(run_values, prompt.constraint)},
               {"Model", cli_model_options, CLI_MODEL_SESSION, offsetof(run_values, prompt.model)},
               {"Ranks", cli_model_ranks, CLI_MODEL_RANKS, offsetof(run_values, prompt.model)}},
    .run = run,
};

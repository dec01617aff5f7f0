/* mica run: one answer to one prompt, in the model's chat format. */
#include "prompt.h"
#include "report.h"
#include "verb.h"

typedef struct run_values {
    cli_model_values model;
    cli_answer_values answer;
    const char *system;
} run_values;

static mica_status open_chat(mica_session *session, const cli_text *prompt,
                             const mica_generate_options *options, const void *user,
                             mica_stream **stream) {
    const run_values *values = user;
    mica_message messages[2] = {{"system", values->system}, {"user", prompt->data}};
    int first = values->system ? 0 : 1;
    return mica_chat(session, messages + first, (size_t)(2 - first), options, stream);
}

static int run(const void *verb_values, char **args, int count) {
    const run_values *values = verb_values;
    return cli_prompt_run("run", &values->model, &values->answer, args, count, open_chat, values);
}

static const cli_option system_option[] = {
    {.name = "system",
     .letter = 'S',
     .kind = CLI_TEXT,
     .placeholder = "TEXT",
     .help = "what the model is told before the prompt",
     .offset = offsetof(run_values, system)},
};

const cli_verb cli_verb_run = {
    .synopsis = "[MODEL] [PROMPT]",
    .details = "Puts PROMPT in the model's chat format and prints the answer.\n\n" CLI_STDIN_HELP(
        "PROMPT") "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica run \"What is curl?\"\n"
                "  mica run ~/models/gemma-3-1b-it \"Write a haiku on disks\" -T 0.8 --seed 7\n"
                "  git diff | mica run --system \"Describe this change\"\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(run_values),
    .groups = {{"Prompt", system_option, CLI_COUNT(system_option), 0},
               {"Answer", cli_answer_options, CLI_ANSWER_OPTIONS, offsetof(run_values, answer)},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(run_values, model)}},
    .run = run,
};

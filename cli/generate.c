/* mica generate: continue a raw text. */
#include "prompt.h"
#include "verb.h"

static mica_status open_raw(mica_session *session, const cli_text *prompt,
                            const mica_generate_options *options, const void *user,
                            mica_stream **stream) {
    (void)user;
    return mica_generate(session, prompt->data, prompt->len, options, stream);
}

static int run(const void *verb_values, char **args, int count) {
    return cli_prompt_run("generate", verb_values, args, count, open_raw, NULL);
}

const cli_verb cli_verb_generate = {
    .synopsis = "[MODEL] [PROMPT]",
    .details = "Prints how the model continues PROMPT, a raw text.\n\n" CLI_JOINED_HELP(
        "PROMPT") "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica generate \"curl is\" --max-tokens 40\n",
    .max_args = 3,
    .words = CLI_WORDS_FOLDERS,
    .ranks = CLI_RANKS_TOGETHER,
    .values_bytes = sizeof(cli_prompt_values),
    .groups = {{"Prompt", cli_prompt_options, CLI_PROMPT_OPTIONS, 0},
               {"Answer", cli_answer_options, CLI_ANSWER_OPTIONS,
                offsetof(cli_prompt_values, answer)},
               {"Structured output", cli_constraint_options, CLI_CONSTRAINT_OPTIONS,
                offsetof(cli_prompt_values, constraint)},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(cli_prompt_values, model)},
               {"Session", cli_model_options + CLI_MODEL_CHAT, CLI_MODEL_SESSION - CLI_MODEL_CHAT,
                offsetof(cli_prompt_values, model)},
               {"Ranks", cli_model_ranks, CLI_MODEL_RANKS, offsetof(cli_prompt_values, model)}},
    .run = run,
};

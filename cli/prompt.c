#include "prompt.h"

#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

int cli_prompt_read(const char *verb_name, const char *word, cli_text *out) {
    if (!word && cli_stdin_is_terminal()) return cli_usage(verb_name, "%s needs a text", verb_name);
    bool from_stdin = !word || strcmp(word, "-") == 0;
    bool read = from_stdin ? cli_text_read_stdin(out) : cli_text_append(out, word, strlen(word));
    return read ? CLI_DONE : CLI_FAILED;
}

int cli_prompt_read_text(const char *verb_name, const char *model_option, const char *file,
                         char **args, int count, const char **model_word, cli_text *out) {
    const char *word;
    int code;
    cli_model_split(model_option, args, count, model_word, &word);
    if (file && !*model_word && word && count == 1) {
        *model_word = word; /* the text is the file's */
        word = NULL;
    }
    if (file && word) return cli_usage(verb_name, "two texts: --file %s and %s", file, word);
    if (file)
        code = cli_text_read_file(out, file) ? CLI_DONE : CLI_FAILED;
    else
        code = cli_prompt_read(verb_name, word, out);
    if (code == CLI_DONE && out->len == 0) code = cli_fail("the text is empty");
    return code;
}

int cli_prompt_run(const char *verb_name, const cli_model_values *model_values,
                   const cli_answer_values *answer_values, char **args, int count,
                   cli_prompt_open open, const void *user) {
    const char *model_word, *prompt_word;
    cli_text prompt = {0};
    mica_model *model = NULL, *draft = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_status status;

    cli_model_split(model_values->model, args, count, &model_word, &prompt_word);
    int code = cli_prompt_read(verb_name, prompt_word, &prompt);
    if (code == CLI_DONE && !cli_text_check(&prompt)) code = CLI_FAILED;
    if (code == CLI_DONE && prompt.len == 0) code = cli_fail("the prompt is empty");
    if (code != CLI_DONE) goto done;
    model =
        cli_model_open_default(model_values, model_word, verb_name, answer_values->quiet, &code);
    if (!model) goto done;

    mica_generate_options options = cli_answer_generate_options(answer_values);
    code = CLI_FAILED;
    session = cli_model_open_session(model, model_values, answer_values->draft_model,
                                     answer_values->quiet, &draft);
    if (!session) goto done;
    status = open(session, &prompt, &options, user, &stream);
    code = status == MICA_OK
               ? cli_answer_print(&stream, mica_model_tokenizer(model), answer_values, NULL, NULL)
               : cli_fail_status(status);
done:
    mica_session_close(&session);
    mica_model_close(&draft);
    mica_model_close(&model);
    free(prompt.data);
    return code;
}

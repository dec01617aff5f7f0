/* Answers many questions at once. Their tokens are computed together, so each weight is read once
 * for all of them. Each answer is the same as alone. */
#include <mica/mica.h>

#include <stdio.h>

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    static const mica_message questions[] = {
        {.role = "user", .content = "What is curl?"},
        {.role = "user", .content = "What is nginx?"},
        {.role = "user", .content = "How do I exit vim?"},
        {.role = "user", .content = "Which package contains the dig command?"},
    };
    mica_batch_item items[4];
    mica_model *model = NULL;
    mica_batch_results *results = NULL;

    for (size_t i = 0; i < 4; i++)
        items[i] = (mica_batch_item){.messages = &questions[i], .message_count = 1};
    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) status = mica_batch_generate(model, items, 4, NULL, &results);
    for (size_t i = 0; !status && i < results->count; i++) {
        const mica_batch_row *row = &results->rows[i];
        printf("%s\n    %s\n", questions[i].content, row->status ? row->error : row->text);
    }
    if (!status)
        printf("%lld tokens, %.0f a second\n", (long long)results->generated_tokens,
               (double)results->generated_tokens / results->seconds);
    else
        fprintf(stderr, "%s\n", mica_last_error());
    mica_batch_free(&results);
    mica_model_close(&model);
    return status != MICA_OK;
}

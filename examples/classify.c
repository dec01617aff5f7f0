/* Classifies questions without generating answers. The default model begins an answer with "You"
 * (can use ...) if it can help, and with "I" (don't know) if it cannot. */
#include <mica/mica.h>

#include <stdio.h>

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    static const char *const questions[] = {
        "What can I use to edit text?",
        "What is the weather tomorrow?",
        "give me something to compress files",
        "How do I cook rice?",
    };
    static const char *const labels[] = {"You", "I"};
    static const char *const meaning[] = {"can help", "cannot help"};
    const mica_classify_options options = {.labels = labels, .label_count = 2, .as_chat = true};
    mica_model *model = NULL;
    mica_classify_results *results = NULL;

    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) status = mica_classify(model, questions, 4, &options, &results);
    for (size_t i = 0; !status && i < results->count; i++) {
        const mica_classify_row *row = &results->rows[i];
        if (row->status) /* this question failed, others may be fine */
            printf("%-40s %s\n", questions[i], row->error);
        else
            printf("%-40s %-12s %5.1f %%\n", questions[i], meaning[row->label],
                   100.0 * row->labels[row->label]);
    }
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_classify_free(&results);
    mica_model_close(&model);
    return status != MICA_OK;
}

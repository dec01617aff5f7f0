/* An engine of one's own: it answers with the prompt's tokens, the last one first. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
    size_t left; /* tokens still to be given */
    int32_t ids[];
} answer;

static char one_model; /* this engine's models have no state: all are this one */

static mica_status open_model(void *user, const char *path, const mica_model_options *options,
                              void **model) {
    (void)user, (void)path, (void)options;
    *model = &one_model;
    return MICA_OK;
}

static void close_model(void *model) {
    (void)model;
}

/* Sessions have no state either: answer_open is given the model. */
static mica_status open_answer(void *model, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **out) {
    (void)model;
    if (options->temperature > 0)
        return mica_engine_fail(MICA_EUNSUPPORTED, "temperature: this engine draws nothing");
    answer *a = malloc(sizeof *a + count * sizeof *ids);
    if (!a) return mica_engine_fail(MICA_ENOMEM, "no memory for an answer");
    a->left = count;
    memcpy(a->ids, ids, count * sizeof *ids);
    *out = a;
    return MICA_OK;
}

static mica_status next(void *state, mica_token *token, mica_finish *finish) {
    answer *a = state;
    if (a->left > 0)
        token->id = a->ids[--a->left];
    else
        *finish = MICA_FINISH_STOP;
    return MICA_OK;
}

static void close_answer(void *state) {
    free(state);
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    const mica_engine backwards = {
        .struct_bytes = sizeof backwards,
        .name = "backwards",
        .description = "says the prompt backwards",
        .model_open = open_model,
        .model_close = close_model,
        .answer_open = open_answer,
        .answer_next = next,
        .answer_close = close_answer,
    };
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    const mica_model_options options = {.engine = "backwards"};

    mica_status status = mica_engine_register(&backwards);
    if (!status) status = mica_model_open(folder, &options, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status) status = mica_generate(session, "The sea is wide", 0, NULL, &stream);
    for (mica_token t; mica_stream_next(stream, &t);)
        fwrite(t.text, 1, t.len, stdout);
    if (!status) status = mica_stream_status(stream);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    (void)mica_engine_unregister("backwards"); /* after its last model is closed */
    return status != MICA_OK;
}

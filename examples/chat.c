/* Asks one question and prints the answer: the program of the README. */
#include <mica/mica.h>

#include <stdio.h>

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    mica_message question = {.role = "user", .content = "What is curl?"};
    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status) status = mica_chat(session, &question, 1, NULL, &stream);
    for (mica_token t; !status && mica_stream_next(stream, &t);)
        fwrite(t.text, 1, t.len, stdout);
    if (!status) status = mica_stream_status(stream);
    puts(status ? mica_last_error() : "");
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}

/* Reads values out of a text: the answer is a JSON document of a schema, whatever the model. */
#include <mica/mica.h>

#include <stdio.h>

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    static const char schema[] =
        "{\"type\": \"object\","
        " \"properties\": {\"tool\": {\"enum\": [\"curl\", \"nginx\", \"tar\", \"vim\"]},"
        "                \"purpose\": {\"type\": \"string\", \"maxLength\": 60},"
        "                \"network\": {\"type\": \"boolean\"}},"
        " \"required\": [\"tool\", \"purpose\", \"network\"]}";
    const mica_generate_options options = {
        .max_tokens = 200, .constraint = MICA_CONSTRAINT_JSON_SCHEMA, .constraint_text = schema};
    const mica_message question = {.role = "user", .content = "What is curl?"};
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    size_t tokens;

    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) /* how long is the prompt? */
        status = mica_model_render(model, &question, 1, NULL, NULL, NULL, NULL, &tokens);
    if (!status) printf("%zu tokens of prompt\n", tokens);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status) status = mica_chat(session, &question, 1, &options, &stream);
    if (!status) {
        for (mica_token token; mica_stream_next(stream, &token);)
            fwrite(token.text, 1, token.len, stdout);
        putchar('\n');
        status = mica_stream_status(stream);
    }
    if (!status && mica_stream_finish(stream) == MICA_FINISH_LENGTH)
        puts("200 tokens were not enough: this is the beginning of a document");
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}

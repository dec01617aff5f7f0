/* Continues a text, sampled with a seed, prints it piece by piece, and prints the rate. */
#include <mica/mica.h>

#include <stdio.h>

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    const char *prompt = argc > 2 ? argv[2] : "GNU tar is";
    const mica_generate_options options = {
        .max_tokens = 60, .temperature = 0.7f, .top_p = 0.9f, .seed = 1};
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_stream *stream = NULL;

    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status) status = mica_generate(session, prompt, 0, &options, &stream);
    if (!status) printf("%s", prompt);
    for (mica_token t; !status && mica_stream_next(stream, &t);)
        fwrite(t.text, 1, t.len, stdout);
    if (!status)
        status = mica_stream_status(stream); /* errors are reported when the stream has
                                                         ended */
    puts("");
    if (!status) {
        mica_metrics m = {.struct_bytes = sizeof m};
        mica_stream_metrics(stream, &m);
        printf("%lld tokens, %.0f a second\n", (long long)m.generated_tokens, m.decode_rate);
    } else {
        fprintf(stderr, "%s\n", mica_last_error());
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}

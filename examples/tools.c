/* Lets a model call a tool: its call is read, the tool is run, and the model answers with what came
 * of it. Here the first answer must be a call, so that every model makes one. */
#include <mica/mica.h>

#include <stdio.h>
#include <string.h>

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {"
    "  \"name\": \"find_package\", \"description\": \"Finds the package that has a command.\","
    "  \"parameters\": {\"type\": \"object\", \"properties\": {\"command\": {\"type\": "
    "\"string\"}},"
    "                 \"required\": [\"command\"]}}}]";
static const char call_schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "   \"name\": {\"const\": \"find_package\"},"
    "   \"arguments\": {\"type\": \"object\","
    "                 \"properties\": {\"command\": {\"enum\": [\"dig\", \"curl\", \"vim\"]}},"
    "                 \"required\": [\"command\"], \"additionalProperties\": false}},"
    " \"required\": [\"name\", \"arguments\"], \"additionalProperties\": false}";

/* The tool. */
static const char *find_package(const char *arguments) {
    return strstr(arguments, "dig") ? "bind9-dnsutils" : "a package of that name";
}

/* Answers a conversation; *answer receives what was said. */
static mica_status ask(const mica_model *model, mica_session *session, const mica_message *messages,
                       size_t count, const mica_generate_options *options, mica_answer **answer) {
    int32_t *ids = NULL;
    size_t n;
    mica_stream *stream = NULL;
    mica_status status = mica_model_render(model, messages, count, options, NULL, NULL, &ids, &n);
    const mica_answer_options reading = {.tools = options->tools, .prompt = ids, .prompt_count = n};
    if (!status) status = mica_answer_open(model, &reading, answer);
    if (!status) status = mica_generate_ids(session, ids, n, options, &stream);
    for (mica_token t; !status && mica_stream_next(stream, &t);)
        status = mica_answer_push_token(*answer, &t);
    if (!status) status = mica_stream_status(stream);
    if (!status) status = mica_answer_end(*answer);
    mica_stream_close(&stream);
    mica_free(ids);
    return status;
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "models/default";
    mica_generate_options options = {.max_tokens = 100,
                                     .tools = tools,
                                     .constraint = MICA_CONSTRAINT_JSON_SCHEMA,
                                     .constraint_text = call_schema};
    mica_message messages[3] = {
        {.role = "user", .content = "Which package contains the dig command?"}};
    mica_tool_call call;
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_answer *first = NULL, *second = NULL;

    mica_status status = mica_model_open(folder, NULL, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status) status = ask(model, session, messages, 1, &options, &first);
    if (!status) status = mica_answer_get_call(first, 0, &call);
    if (!status) {
        printf("%s(%s)\n", call.name, call.arguments);
        mica_answer_get_message(first, &messages[1]);
        messages[2] = (mica_message){
            .role = "tool", .content = find_package(call.arguments), .tool_call_id = call.id};
        options.constraint = MICA_CONSTRAINT_NONE;
        options.constraint_text = NULL;
        status = ask(model, session, messages, 3, &options, &second);
    }
    puts(status ? mica_last_error() : mica_answer_text(second, NULL));
    mica_answer_close(&first);
    mica_answer_close(&second);
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}

/* Callers that were compiled with other versions of the headers: every public struct that begins
 * with struct_bytes. */
#include "support/support.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *path; /* of the default model */
static mica_model *model;
static mica_session *session;
static mica_scope *scope;
static mica_program *program;
static mica_tuner *tuner; /* opened when it is asked for */

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static int open_default(void **state) {
    (void)state;
    path = test_format("%s/default", test_models_dir());
    must(mica_model_open(path, &(mica_model_options){.threads = 1}, &model));
    must(mica_session_open(model, NULL, &session));
    must(mica_scope_open(mica_model_device(model), &scope));
    mica_array x = mica_program_param(scope, MICA_F32, (int64_t[]){2}, 1);
    must(mica_program_build(scope, &(mica_param){.name = "x", .array = x}, 1, &x, 1, NULL,
                            &program));
    return 0;
}

static int close_default(void **state) {
    (void)state;
    mica_tuner_close(&tuner);
    mica_program_close(&program);
    mica_scope_close(&scope);
    mica_session_close(&session);
    mica_model_close(&model);
    free(path);
    return 0;
}

/* ---- options: a call of each function that takes them ---- */

static const char text[] = "What is nginx?";
static const mica_message message = {.role = "user", .content = "What is nginx?"};
static const int32_t ids[] = {1, 2, 3};

static mica_status call_device_open(const void *options) {
    mica_device *device;
    mica_status status = mica_device_open("cpu", options, &device);
    mica_device_close(&device);
    return status;
}

static mica_status call_model_open(const void *options) {
    mica_model *opened;
    mica_status status = mica_model_open(path, options, &opened);
    mica_model_close(&opened);
    return status;
}

static mica_status call_session_open(const void *options) {
    mica_session *opened;
    mica_status status = mica_session_open(model, options, &opened);
    mica_session_close(&opened);
    return status;
}

static mica_status call_generate(const void *options) {
    mica_stream *stream;
    mica_status status = mica_generate(session, text, 0, options, &stream);
    mica_stream_close(&stream);
    return status;
}

static mica_status call_chat(const void *options) {
    mica_stream *stream;
    mica_status status = mica_chat(session, &message, 1, options, &stream);
    mica_stream_close(&stream);
    return status;
}

static char row_error[256];

static bool stop(void *user, size_t row, const mica_token *token) {
    (void)user, (void)row, (void)token;
    return false;
}

/* A row's options fail the row only. */
static mica_status call_batch_item(const void *options) {
    const mica_batch_item items[] = {{.messages = &message, .message_count = 1, .options = options},
                                     {.prompt = text}};
    mica_batch_results *results;
    must(mica_batch_generate(model, items, 2, &(mica_batch_options){.token = stop}, &results));
    mica_status status = results->rows[0].status;
    snprintf(row_error, sizeof row_error, "%s", results->rows[0].error);
    if (status == MICA_EINVAL) assert_int_equal(results->rows[0].metrics->prompt_tokens, 0);
    assert_int_equal(results->rows[1].status, MICA_ECANCELLED);
    mica_batch_free(&results);
    return status == MICA_ECANCELLED ? MICA_OK : status;
}

static mica_status call_batch(const void *options) {
    const mica_batch_item item = {.prompt = text,
                                  .options = &(mica_generate_options){.max_tokens = 1}};
    mica_batch_results *results;
    mica_status status = mica_batch_generate(model, &item, 1, options, &results);
    mica_batch_free(&results);
    return status;
}

static mica_status call_forward(const void *options) {
    mica_scope *s;
    must(mica_scope_open(mica_model_device(model), &s));
    mica_array x = mica_from_data(s, ids, MICA_I32, (int64_t[]){1, 3}, 2);
    mica_status status = mica_eval(s, mica_model_forward(s, model, x, options));
    mica_scope_close(&s);
    return status;
}

static mica_status call_answer_open(const void *options) {
    mica_answer *answer;
    mica_status status = mica_answer_open(model, options, &answer);
    mica_answer_close(&answer);
    return status;
}

static mica_status call_classify(const void *options) {
    mica_classify_results *results;
    mica_status status = mica_classify(model, &(const char *){text}, 1, options, &results);
    mica_classify_free(&results);
    return status;
}

static mica_status call_embed(const void *options) {
    float *vector;
    size_t n;
    mica_status status = mica_embed(model, text, 0, options, &vector, &n);
    mica_free(vector);
    return status;
}

static mica_status call_score(const void *options) {
    mica_score_result *result;
    mica_status status = mica_score_ids(model, ids, 3, options, &result);
    mica_score_free(&result);
    return status;
}

static mica_status call_compare(const void *options) {
    mica_comparison sums = {0};
    return mica_compare_ids(model, model, ids, 3, options, &sums);
}

static mica_status call_inspect(const void *options) {
    mica_attention *attention;
    mica_status status = mica_inspect_attention(model, text, 0, NULL, 0, options, &attention);
    mica_attention_free(&attention);
    return status;
}

static mica_scope *open_scope(void) {
    mica_scope *s;
    must(mica_scope_open(mica_model_device(model), &s));
    return s;
}

static mica_status call_rope(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){1, 1, 2, 8}, 4, MICA_F32);
    (void)mica_rope(s, x, mica_i32(s, 0), MICA_NONE, options);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_sdpa(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){1, 1, 2, 8}, 4, MICA_F32);
    (void)mica_sdpa(s, x, x, x, options);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_selective_scan(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){1, 2, 3}, 3, MICA_F32);
    mica_array a = mica_zeros(s, (int64_t[]){3, 3}, 2, MICA_F32);
    (void)mica_selective_scan(s, x, x, a, x, x, options, NULL);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_sample(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){1, 2}, 2, MICA_F32);
    (void)mica_sample(s, mica_random_key(s, 1), x, options);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_qmatmul(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){2, 2}, 2, MICA_I8);
    (void)mica_qmatmul(s, x, x, MICA_NONE, options);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_qconv2d(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){1, 1, 2, 2}, 4, MICA_I8);
    (void)mica_qconv2d(s, x, x, MICA_NONE, NULL, options);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_fake_quantize(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){2, 2}, 2, MICA_F32);
    (void)mica_fake_quantize(s, x, options, NULL);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_text(const void *options) {
    return mica_array_text(mica_f32(scope, 1), options, NULL, 0, NULL);
}

static mica_status call_attention(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){1, 1, 2, 8}, 4, MICA_F32);
    (void)mica_masked_attention(s, x, x, x, options);
    mica_status status = mica_scope_status(s);
    mica_scope_close(&s);
    return status;
}

static mica_status call_program_build(const void *options) {
    mica_program *built;
    mica_status status = mica_program_build(scope, NULL, 0, NULL, 0, options, &built);
    mica_program_close(&built);
    return status;
}

static mica_status call_program_encode(const void *options) {
    void *data;
    size_t bytes;
    mica_status status = mica_program_encode(program, options, &data, &bytes);
    mica_free(data);
    return status;
}

static mica_status call_program_decode(const void *options) {
    void *data;
    size_t bytes;
    mica_program *loaded;
    must(mica_program_encode(program, NULL, &data, &bytes));
    mica_status status =
        mica_program_decode(mica_model_device(model), data, bytes, options, &loaded);
    mica_program_close(&loaded);
    mica_free(data);
    return status;
}

static mica_status call_engine_register(const void *options) {
    return mica_engine_register(options);
}

static mica_status call_custom_vjp(const void *options) {
    return mica_custom_vjp(scope, options, NULL, NULL, 0, NULL, 0);
}

static mica_status call_custom_register(const void *options) {
    return mica_custom_register(options);
}

static mica_status call_executable_open(const void *options) {
    mica_executable *opened;
    mica_status status = mica_executable_open(program, options, &opened);
    mica_executable_close(&opened);
    return status;
}

static mica_status copy_args(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                             mica_array *results, size_t n_results) {
    (void)user, (void)s;
    for (size_t i = 0; i < n_args && i < n_results; i++)
        results[i] = args[i];
    return MICA_OK;
}

static mica_status call_compile(const void *options) {
    mica_function *function;
    mica_status status =
        mica_compile(mica_model_device(model), copy_args, NULL, options, &function);
    mica_function_close(&function);
    return status;
}

static mica_status call_optimizer_open(const void *options) {
    mica_optimizer *opened;
    mica_status status = mica_optimizer_open(mica_model_device(model), options, &opened);
    mica_optimizer_close(&opened);
    return status;
}

static mica_status call_tuner_open(const void *options) {
    mica_tuner *opened;
    mica_status status = mica_tuner_open(path, options, &opened);
    mica_tuner_close(&opened);
    return status;
}

static mica_status call_gguf_folder(const void *options) {
    char *folder, *none = test_format("%s/none.gguf", path);
    mica_status status = mica_gguf_folder(none, options, &folder);
    mica_free(folder);
    free(none);
    return status;
}

static mica_status call_rerank(const void *options) {
    float scores[1];
    return mica_rerank(model, text, &(const char *){text}, 1, options, scores);
}

static mica_tuner *open_tuner(void) {
    if (!tuner) must(mica_tuner_open(path, NULL, &tuner));
    return tuner;
}

static mica_status call_lora_apply(const void *options) {
    return mica_lora_apply(open_tuner(), options);
}

static mica_status call_tune(const void *options) {
    return mica_tune(open_tuner(), options, NULL);
}

static mica_status call_loss(const void *options) {
    mica_array x = mica_f32(scope, 1), loss;
    return mica_loss(scope, "none", &x, 1, options, &loss);
}

static mica_status call_while(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_f32(s, 0), y;
    mica_status status = mica_while(s, copy_args, copy_args, NULL, &x, 1, options, &y, NULL);
    mica_scope_close(&s);
    return status;
}

static mica_status call_scan(const void *options) {
    mica_scope *s = open_scope();
    mica_array x = mica_zeros(s, (int64_t[]){2, 1}, 2, MICA_F32), y;
    mica_status status = mica_scan(s, copy_args, NULL, NULL, 0, &x, 1, options, NULL, &y, 1);
    mica_scope_close(&s);
    return status;
}

static mica_status call_convert(const void *options) {
    return mica_convert("none/such", "none/made", options, NULL);
}

static mica_status call_pull(const void *options) {
    char *folder = NULL;
    mica_status status = mica_pull("", options, &folder);
    mica_free(folder);
    return status;
}

static mica_status call_onnx_decode(const void *options) {
    mica_program *loaded = NULL;
    mica_status status = mica_onnx_decode(mica_model_device(model), "x", 1, options, &loaded);
    mica_program_close(&loaded);
    return status;
}

static mica_status call_pick_device(const void *options) {
    size_t pick;
    return mica_pick_device(program, NULL, 0, options, &pick);
}

static mica_status call_server_open(const void *options) {
    mica_server *server = NULL;
    mica_status status = mica_server_open(options, &server);
    mica_server_close(&server);
    return status;
}

static mica_status call_server_add(const void *options) {
    mica_server *server;
    must(mica_server_open(NULL, &server));
    mica_status status = mica_server_add(server, "default", model, options);
    mica_server_close(&server);
    return status;
}

static mica_status call_server_load(const void *options) {
    mica_server *server;
    must(mica_server_open(NULL, &server));
    mica_status status = mica_server_load(server, options);
    mica_server_close(&server);
    return status;
}

static mica_status call_server_ask(const void *options) {
    char *answer = NULL;
    int got;
    mica_status status =
        mica_server_ask("unix:/none/such", "GET", "/", NULL, options, &got, &answer);
    mica_free(answer);
    return status;
}

typedef struct options_case {
    const char *name; /* of the struct */
    size_t bytes;
    size_t end; /* of the last member */
    mica_status (*call)(const void *options);
    bool fails; /* after they were read */
} options_case;

#define END(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))
static mica_status call_group_open(const void *options) {
    mica_group *group = NULL;
    mica_status status = mica_group_open(options, &group);
    mica_group_close(&group);
    return status;
}

#define CASE(type, last, call) \
    { #type, sizeof(type), END(type, last), call, false }
#define FAILS(type, last, call) \
    { #type, sizeof(type), END(type, last), call, true }
static const options_case cases[] = {
    CASE(mica_device_options, cache_limit_bytes, call_device_open),
    CASE(mica_model_options, pipeline_parallel, call_model_open),
    CASE(mica_group_options, patience_s, call_group_open),
    CASE(mica_session_options, draft_model, call_session_open),
    CASE(mica_generate_options, constraint_text, call_generate),
    CASE(mica_generate_options, constraint_text, call_chat),
    CASE(mica_generate_options, constraint_text, call_batch_item),
    CASE(mica_batch_options, cancel, call_batch),
    CASE(mica_classify_options, cancel, call_classify),
    CASE(mica_embed_options, dimensions, call_embed),
    CASE(mica_task_options, cancel, call_score),
    CASE(mica_forward_options, store, call_forward),
    CASE(mica_answer_options, prompt_count, call_answer_open),
    CASE(mica_task_options, cancel, call_compare),
    CASE(mica_task_options, cancel, call_inspect),
    CASE(mica_rope_options, scale, call_rope),
    CASE(mica_sdpa_options, sinks, call_sdpa),
    CASE(mica_selective_scan_options, initial, call_selective_scan),
    CASE(mica_sample_options, min_p, call_sample),
    CASE(mica_qmatmul_options, multiplier, call_qmatmul),
    CASE(mica_qmatmul_options, multiplier, call_qconv2d),
    CASE(mica_fake_quantize_options, scale, call_fake_quantize),
    CASE(mica_text_options, digits, call_text),
    CASE(mica_masked_attention_options, mask, call_attention),
    FAILS(mica_custom_op, vjp, call_custom_register),
    CASE(mica_program_options, result_names, call_program_build),
    CASE(mica_program_file_options, n_constants, call_program_encode),
    CASE(mica_program_file_options, n_constants, call_program_decode),
    CASE(mica_executable_options, n_slots, call_executable_open),
    CASE(mica_compile_options, max_programs, call_compile),
    CASE(mica_optimizer_options, momentum, call_optimizer_open),
    CASE(mica_tuner_options, chat_template, call_tuner_open),
    FAILS(mica_gguf_options, cancel, call_gguf_folder),
    FAILS(mica_rerank_options, cancel, call_rerank),
    FAILS(mica_engine, answer_close, call_engine_register),
    FAILS(mica_custom_gradient, jvp, call_custom_vjp),
    CASE(mica_lora_options, memory_limit_bytes, call_lora_apply),
    FAILS(mica_tune_options, group, call_tune),
    FAILS(mica_loss_options, beta, call_loss),
    FAILS(mica_while_options, max_rounds, call_while),
    CASE(mica_scan_options, checkpoints, call_scan),
    FAILS(mica_convert_options, target_bits, call_convert),
    FAILS(mica_pull_options, notice_user, call_pull),
    FAILS(mica_onnx_options, notes, call_onnx_decode),
    FAILS(mica_pick_options, args, call_pick_device),
    CASE(mica_server_options, kv_events_seed, call_server_open),
    CASE(mica_serving_options, max_tokens, call_server_add),
    CASE(mica_loading_options, memory_bytes, call_server_load),
    FAILS(mica_ask_options, silent_seconds, call_server_ask),
};

enum { NEWER = 24, ROOM = 1024 }; /* bytes of later members; of any struct */

typedef union given {
    size_t struct_bytes;
    void *aligned;
    unsigned char bytes[ROOM];
} given;

static void expect_taken(const options_case *c, const given *options) {
    mica_status status = c->call(options);
    bool refused = status == MICA_EINVAL && strstr(mica_last_error(), c->name);
    if (c->fails ? refused || status == MICA_OK : status != MICA_OK)
        fail_msg("%s of %zu bytes: %s", c->name, options->struct_bytes,
                 status == MICA_OK ? "no error" : mica_last_error());
}

static void expect_refused(const options_case *c, const given *options, const char *word) {
    assert_int_equal(c->call(options), MICA_EINVAL);
    const char *error = c->call == call_batch_item ? row_error : mica_last_error();
    if (!strstr(error, c->name) || !strstr(error, word))
        fail_msg("%s: \"%s\" lacks %s", c->name, error, word);
}

static void test_options(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const options_case *c = &cases[i];
        given options = {0};
        assert_true(c->bytes + NEWER <= ROOM);
        assert_int_equal(c->end, c->bytes); /* no padding, which a later member would lie in */
        expect_taken(c, &options);          /* 0: version 0.1 */
        options.struct_bytes = c->bytes;
        expect_taken(c, &options);
        options.struct_bytes = c->bytes + NEWER;
        expect_taken(c, &options);
        options.bytes[c->bytes + NEWER - 1] = 1; /* the last byte of a later member */
        expect_refused(c, &options, "older");
        options.struct_bytes--; /* it does not have that byte */
        expect_taken(c, &options);
        options.struct_bytes = 2; /* a first member without its name, such as {2} */
        expect_refused(c, &options, "struct_bytes");
        options.struct_bytes = SIZE_MAX;
        expect_refused(c, &options, "struct_bytes");
        memset(&options, 0xff, sizeof options); /* nothing but struct_bytes is read */
        options.struct_bytes = sizeof options.struct_bytes;
        expect_taken(c, &options);
    }
}

/* ---- information ---- */

static void fill_device_info(void *info) {
    mica_device_get_info(mica_model_device(model), info);
}

static void fill_model_info(void *info) {
    mica_model_get_info(model, info);
}

static void fill_tuner_info(void *info) {
    mica_tuner_get_info(NULL, info);
}

static void fill_kernels(void *info) {
    assert_true(mica_model_get_kernels(model, 0, info));
}

static void fill_metrics(void *info) {
    mica_stream_metrics(NULL, info);
}

static void fill_port(void *info) {
    must(mica_program_get_param(program, 0, info));
}

static void fill_memory(void *info) {
    must(mica_program_get_memory(program, info));
}

static void fill_cost(void *info) {
    must(mica_program_get_cost(program, mica_model_device(model), info));
}

static void fill_parameter(void *info) {
    mica_tuner *t = open_tuner();
    if (!mica_tuner_parameter_count(t)) must(mica_lora_apply(t, NULL));
    must(mica_tuner_get_parameter(t, 0, info));
}

static void fill_engine_info(void *info) {
    must(mica_engine_get("native", info));
}

typedef struct info_case {
    size_t bytes;
    size_t last; /* offset of the last member */
    size_t end;
    void (*fill)(void *info);
} info_case;

#define INFO(type, last, fill) \
    { sizeof(type), offsetof(type, last), END(type, last), fill }
static const info_case infos[] = {
    INFO(mica_device_info, working_set_bytes, fill_device_info),
    INFO(mica_model_info, expert_size, fill_model_info),
    INFO(mica_model_info, expert_size, fill_tuner_info),
    INFO(mica_model_kernels, many_rows, fill_kernels),
    INFO(mica_metrics, total_seconds, fill_metrics),
    INFO(mica_port, symbols, fill_port),
    INFO(mica_program_memory, prepared_bytes, fill_memory),
    INFO(mica_engine_info, reason, fill_engine_info),
    INFO(mica_cost, cpu_ops, fill_cost),
    INFO(mica_parameter, value, fill_parameter),
};

/* All members of version 0.1 are filled in, whatever struct_bytes says, later ones where there is
 * room for them, and nothing behind that. */
static void test_information(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++) {
        const info_case *c = &infos[i];
        const size_t sizes[] = {0, 1, sizeof(size_t), c->bytes, c->bytes + NEWER, SIZE_MAX};
        given want = {.struct_bytes = c->bytes}, tail;
        assert_true(c->end <= c->bytes);
        c->fill(&want);
        memset(&tail, 0x5a, sizeof tail);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            given got = tail;
            got.struct_bytes = sizes[k];
            c->fill(&got);
            assert_int_equal(got.struct_bytes, sizes[k]);
            size_t filled = sizes[k] < c->end ? c->end : c->bytes;
            assert_memory_equal(got.bytes + filled, tail.bytes, ROOM - filled);
            assert_memory_equal(got.bytes + c->last, want.bytes + c->last, filled - c->last);
        }
    }
    mica_device_get_info(NULL, NULL);
    mica_model_get_info(model, NULL);
    assert_true(mica_model_get_kernels(model, 0, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_information),
    };
    return cmocka_run_group_tests(tests, open_default, close_default);
}

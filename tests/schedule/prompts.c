#include "schedule/prompts.h"

#include "engine/model.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

mica_model *models[2];
static int32_t *tall; /* some thousand tokens */
static size_t tall_count;

int open_models(void **state) {
    (void)state;
    static const mica_arithmetic arithmetic[] = {MICA_ARITHMETIC_EXACT, MICA_ARITHMETIC_FAST};
    for (int i = 0; i < 2; i++)
        models[i] =
            open_model("default", &(mica_model_options){.threads = 2, .arithmetic = arithmetic[i]});
    char *path = test_format("%s/default/MODEL_CARD.md", test_models_dir());
    char *text = test_read_file(path, NULL);
    mica_status status = mica_tokenizer_encode(mica_model_tokenizer(models[0]), text, strlen(text),
                                               true, &tall, &tall_count);
    free(text);
    free(path);
    return status != MICA_OK;
}

int close_models(void **state) {
    (void)state;
    mica_model_close(&models[0]);
    mica_model_close(&models[1]);
    mica_free(tall);
    return 0;
}

static void copy_to(const char *dir, const char *from, const char *name) {
    char *source = test_format("%s/%s/%s", test_cases_dir(), from, name);
    char *to = test_format("%s/%s", dir, name);
    test_copy_file(source, to);
    free(source);
    free(to);
}

mica_model *open_family(const char *dir, const char *name, const mica_model_options *options) {
    static const mica_model_options two = {.threads = 2};
    char *from = test_format("families/%s", name);
    mica_model *model;
    copy_to(dir, from, "config.json");
    copy_to(dir, from, "model.safetensors");
    copy_to(dir, "models/llama3_rope_sharded", "tokenizer.json");
    if (mica_model_open(dir, options ? options : &two, &model) != MICA_OK)
        fail_msg("%s", mica_last_error());
    free(from);
    return model;
}

mc_schedule *open_schedule(const mica_model *model, const mc_schedule_options *options) {
    mc_schedule *schedule;
    if (mc_schedule_open(model, options, &schedule) != MICA_OK) fail_msg("%s", mica_last_error());
    return schedule;
}

mc_schedule *open_far_schedule(const mica_model *model, const mc_schedule_options *options) {
    const mc_session_model *local;
    if (mc_model_local(model, &local) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_session_model *shared = (mc_session_model *)(uintptr_t)local; /* it is no constant */
    shared->far_memory = true;
    mc_schedule *schedule = open_schedule(model, options); /* copies it */
    shared->far_memory = false;
    return schedule;
}

mc_schedule_stats stats_of(mc_schedule *schedule) {
    mc_schedule_stats stats;
    mc_schedule_get_stats(schedule, &stats);
    return stats;
}

void must_submit(client *c, mc_schedule *schedule, const mc_request_options *options) {
    if (client_submit(c, schedule, *options) != MICA_OK) fail_msg("%s", mica_last_error());
}

int32_t *make_prompt(size_t n, unsigned seed) {
    int32_t *ids = malloc(n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = tall[(i + seed * 37) % tall_count];
    return ids;
}

unsigned draw(unsigned *seed, unsigned n) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

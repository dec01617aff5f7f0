/* Training by several ranks, started by mpirun: the same as by one, to the bit, whoever begins it
 * and whoever goes on. */
#include "model/fixture.h"

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char lines[] =
    "{\"prompt\": \"What is curl?\", \"completion\": \"A tool, captain.\"}\n"
    "{\"prompt\": \"What is a disk?\", \"completion\": \"A store, captain.\"}\n"
    "{\"prompt\": \"What is C?\", \"completion\": \"A language, captain.\"}\n"
    "{\"prompt\": \"What is a CPU?\", \"completion\": \"A processor, and a fast one, captain.\"}\n"
    "{\"prompt\": \"Who are you?\", \"completion\": \"A model, captain.\"}\n";

enum { MAX_REPORTS = 64 };

enum { PATIENCE_S = 200 }; /* a busy machine keeps processes from starting, and from giving signs */

static mica_group *group;
static int rank, size;

typedef struct run {
    char *adapter;
    float *values;
    size_t n;
    double losses[MAX_REPORTS], valid;
    size_t reports;
} run;

static void keep_loss(void *user, const mica_tune_report *report) {
    run *r = user;
    if (report->event == MICA_TUNE_TRAIN && r->reports < MAX_REPORTS)
        r->losses[r->reports++] = report->loss;
    if (report->event == MICA_TUNE_VALID) r->valid = report->loss;
}

static void read_parameters(const mica_tuner *tuner, run *r) {
    r->n = (size_t)mica_tuner_trained(tuner);
    float *at = r->values = malloc(r->n * sizeof *at);
    assert_non_null(at);
    for (size_t i = 0; i < mica_tuner_parameter_count(tuner); i++) {
        mica_parameter p;
        assert_int_equal(mica_tuner_get_parameter(tuner, i, &p), MICA_OK);
        size_t count = (size_t)mica_array_size(p.value);
        if (mica_read(p.value, at, count * sizeof *at) != MICA_OK)
            fail_msg("%s", mica_last_error());
        at += count;
    }
}

/* Three updates: two of two batches a rank, and one of a single batch. With NULL as the group by
 * this rank alone. adapter: NULL: nothing is saved. */
static void train(const char *data, mica_group *by, char *adapter, int64_t updates, run *r) {
    char *model = test_format("%s/default", test_models_dir());
    mica_optimizer_options optimizer = {.name = "adamw", .learning_rate = 1e-3};
    mica_tuner *tuner;
    *r = (run){.adapter = adapter};
    const mica_tune_options options = {
        .data = data,
        .adapter = adapter,
        .iterations = updates > 2 ? 4 * size + 1 : updates * 2 * size,
        .accumulate = 2 * size,
        .optimizer = &optimizer,
        .batch_size = 1,
        .report_every = 1,
        .valid_every = 3,
        .valid_share = 0.4,
        .mask_prompt = true,
        .resume = adapter != NULL,
        .watch = keep_loss,
        .watch_user = r,
        .group = by,
    };
    const mica_lora_options lora = {.rank = 2, .layers = 2, .seed = 3, .dropout = 0.1f};
    if (mica_tuner_open(model, &(mica_tuner_options){.threads = 1}, &tuner) != MICA_OK ||
        mica_lora_apply(tuner, &lora) != MICA_OK || mica_tune(tuner, &options, NULL) != MICA_OK)
        fail_msg("%s", mica_last_error());
    read_parameters(tuner, r);
    mica_tuner_close(&tuner);
    free(model);
}

static void expect_same(const run *got, const run *want, const char *what) {
    assert_int_equal(got->n, want->n);
    if (memcmp(got->values, want->values, want->n * sizeof(float)) != 0)
        fail_msg("%s: other parameters on rank %d", what, rank);
    if (got->valid != want->valid)
        fail_msg("%s: validation loss %.17g, of one rank %.17g", what, got->valid, want->valid);
    /* One that went on has the last ones. */
    const double *last = want->losses + want->reports - got->reports;
    for (size_t i = 0; i < got->reports; i++)
        if (got->losses[i] != last[i])
            fail_msg("%s: report %zu: loss %.17g, of one rank %.17g", what, i, got->losses[i],
                     last[i]);
}

/* A folder of rank 0 that all name. */
static char *shared_folder(const char *dir, const char *name) {
    char path[512] = "";
    if (rank == 0) snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mica_group_share(group, path, sizeof path, 0), MICA_OK);
    return test_format("%s", path);
}

static void wait_for_all(void) {
    if (mica_group_agree(group, "the test", "goes on") != MICA_OK)
        fail_msg("%s", mica_last_error());
}

static void same_as_one(void **state) {
    (void)state;
    run one, many, half;
    char *dir = test_temp_dir();
    test_write_below(dir, "train.jsonl", lines);
    train(dir, NULL, NULL, 3, &one);
    assert_int_equal(one.reports, 4 * size + 1);
    train(dir, group, NULL, 3, &many);
    assert_int_equal(many.reports, one.reports);
    expect_same(&many, &one, "all ranks");
    free(many.values);

    char *adapter = shared_folder(dir, "together");
    train(dir, group, adapter, 1, &half);
    train(dir, group, adapter, 3, &many);
    expect_same(&many, &one, "all ranks, interrupted");
    free(half.values);
    free(many.values);
    free(adapter);

    adapter = shared_folder(dir, "alone");
    if (rank == 0) train(dir, NULL, adapter, 1, &half);
    if (rank == 0) free(half.values);
    wait_for_all();
    train(dir, group, adapter, 3, &many);
    expect_same(&many, &one, "begun by one rank");
    free(many.values);
    free(adapter);

    adapter = shared_folder(dir, "back");
    train(dir, group, adapter, 2, &half);
    free(half.values);
    if (rank == 0) {
        train(dir, NULL, adapter, 3, &many);
        expect_same(&many, &one, "ended by one rank");
        free(many.values);
    }
    wait_for_all();
    free(adapter);
    free(one.values);
    test_temp_dir_remove(dir);
}

/* Each rank refuses, and none waits. */
static void refused(void **state) {
    (void)state;
    char *model = test_format("%s/default", test_models_dir()), *dir = test_temp_dir();
    mica_tuner *tuner;
    test_write_below(dir, "train.jsonl", lines);
    mica_tune_options options = {.data = dir, .accumulate = size + 1, .group = group};
    if (mica_tuner_open(model, &(mica_tuner_options){.threads = 1}, &tuner) != MICA_OK ||
        mica_lora_apply(tuner, &(mica_lora_options){.rank = 2, .layers = 1}) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_tune(tuner, &options, NULL), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "have a batch each of an update"));
    options.accumulate = 0;
    options.iterations = 1;
    options.seed = rank == size - 1;
    assert_int_equal(mica_tune(tuner, &options, NULL), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "training: rank "));
    mica_tuner_close(&tuner);
    test_temp_dir_remove(dir);
    free(model);
}

static bool failed; /* the test that ran last has not come to its end */

static void run_one(void **state) {
    const CMUnitTestFunction *test = *state;
    failed = true;
    (*test)(state);
    failed = false;
}

static int go_on(void **state) {
    (void)state;
    if (failed) mica_group_abort(group, 1);
    return 0;
}

/* clang-format off */
#define TEST(f) \
    {.name = #f, .test_func = run_one, .setup_func = go_on, \
     .initial_state = &(CMUnitTestFunction){f}}
/* clang-format on */

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {TEST(same_as_one), TEST(refused)};
    if (mica_group_open(&(mica_group_options){.patience_s = PATIENCE_S}, &group) != MICA_OK) {
        fprintf(stderr, "%s\n", mica_last_error());
        return 1;
    }
    rank = mica_group_rank(group);
    size = mica_group_size(group);
    int failures = cmocka_run_group_tests_name("group/train", tests, NULL, NULL);
    if (failures) mica_group_abort(group, 1);
    mica_group_close(&group);
    return failures;
}

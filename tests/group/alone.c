/* A rank that fails alone: an allocation of rank 1 fails in what the ranks do together, and none
 * waits for the other for ever. Started by mpirun with
 *
 *     WHAT N HOW FOLDER
 *
 * WHAT is a row of the table below; its N-th allocation fails, HOW "once", or "all" that follow.
 * Each rank writes what it came to to FOLDER/RANK: the status, whether as many allocations were
 * made, and the text of the error; and the same of a collective behind it. */
#define _XOPEN_SOURCE 700
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "group/group.h"
#include "model/fixture.h"
#include "session/session_file.h"

enum { PATIENCE_S = 20, WAIT_S = 60, PROMPT = 6 };

static const char *folder;
static mica_group *group;
static mica_device *device;
static mc_lm *lm;
static mc_session_model model;
static mc_session *session;
static mica_tuner *tuner;

static void check(mica_status status) {
    if (status == MICA_OK) return;
    fprintf(stderr, "rank %d: %s\n", mica_group_rank(group), mica_last_error());
    mica_group_abort(group, 1);
    exit(1);
}

/* ---- what ranks do together ---- */

static mica_status feed(void) {
    static const int32_t ids[PROMPT] = {1, 2, 3, 4, 5, 6};
    const float *logits;
    return mc_session_feed(session, ids, PROMPT, &logits);
}

static void split_model(int tensor) {
    char *path = test_format("%s/models/llama_untied_f32", test_fixtures_dir());
    check(mc_lm_open(path, device, NULL, &lm));
    check(mc_lm_split(lm, group, tensor, 0));
    model = (mc_session_model){.lm = lm, .device = device, .fingerprint = 1};
    check(mc_session_open(&model, 0, &session));
    free(path);
}

static void by_matrices(void) {
    split_model(2);
}

static void with_text(void) {
    split_model(2);
    check(feed());
}

static void stages_with_text(void) {
    split_model(1);
    check(feed());
}

static mica_status save(void) {
    char *path = test_format("%s/session", folder);
    mica_status status = mc_session_save(session, path);
    free(path);
    return status;
}

static void saved(void) {
    with_text();
    check(save());
    mc_session_close(&session);
}

static mica_status load(void) {
    char *path = test_format("%s/session", folder);
    mica_status status = mc_session_load(&model, path, 0, &session);
    free(path);
    return status;
}

static mica_status open_whole(void) {
    char *path = test_format("%s/default", test_models_dir());
    mica_model *opened;
    mica_status status =
        mica_model_open(path, &(mica_model_options){.threads = 1, .group = group}, &opened);
    mica_model_close(&opened);
    free(path);
    return status;
}

static mica_status halve(void) {
    mica_group *part;
    mica_status status = mica_group_split(group, 0, 0, &part);
    mica_group_close(&part);
    return status;
}

static void adapted(void) {
    char *path = test_format("%s/default", test_models_dir());
    check(mica_tuner_open(path, &(mica_tuner_options){.threads = 1}, &tuner));
    check(mica_lora_apply(tuner, &(mica_lora_options){.rank = 2, .layers = 1}));
    free(path);
}

static mica_status tune(void) {
    const mica_tune_options options = {
        .data = folder, .iterations = 2, .batch_size = 1, .valid_share = 0.4, .group = group};
    return mica_tune(tuner, &options, NULL);
}

static void nothing(void) {}

static const struct {
    const char *name;
    void (*prepare)(void);
    mica_status (*run)(void);
} rows[] = {
    {"split", nothing, halve}, {"open", nothing, open_whole},      {"feed", by_matrices, feed},
    {"save", with_text, save}, {"stages", stages_with_text, save}, {"load", saved, load},
    {"tune", adapted, tune},
};

/* ---- what came of it ---- */

/* Whole, or not there. */
static void write_own(const char *text) {
    char *path = test_format("%s/%d", folder, mica_group_rank(group));
    char *part = test_format("%s.part", path);
    FILE *file = fopen(part, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0 || rename(part, path) != 0) exit(1);
    free(part);
    free(path);
}

/* mpirun ends all ranks when one has ended. */
static void wait_for_other(void) {
    char *path = test_format("%s/%d", folder, 1 - mica_group_rank(group));
    for (int i = 0; i < WAIT_S * 20 && access(path, R_OK) != 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    free(path);
}

int main(int argc, char **argv) {
    size_t row = 0, count = sizeof rows / sizeof *rows;
    char text[2048];
    if (argc < 5) return 2;
    while (row < count && strcmp(rows[row].name, argv[1]) != 0)
        row++;
    folder = argv[4];
    if (row == count) return 2;
    check(mica_group_open(&(mica_group_options){.patience_s = PATIENCE_S}, &group));
    check(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device));
    rows[row].prepare();
    check(mica_group_agree(group, "all", "are here"));
    if (mica_group_rank(group) == 1) {
        uint64_t n = strtoull(argv[2], NULL, 10);
        if (strcmp(argv[3], "once") == 0)
            mc_alloc_fail_once(n);
        else
            mc_alloc_fail_at(n);
    }
    mica_status status = rows[row].run();
    bool reached = mc_alloc_count() >= strtoull(argv[2], NULL, 10);
    mc_alloc_fail_at(0);
    int used = snprintf(text, sizeof text, "%d %d %s\n", (int)status, reached,
                        status == MICA_OK ? "" : mica_last_error());
    mica_status next = mica_group_agree(group, "all", "go on");
    snprintf(text + used, sizeof text - (size_t)used, "%d %s\n", (int)next,
             next == MICA_OK ? "" : mica_last_error());
    write_own(text);
    wait_for_other();
    mica_group_abort(group, 0);
    return 0;
}

/* A schedule over every family: clients that come at once get what each gets alone, also where one
 * goes and another has a stop string, and the beginnings of their prompts are kept. */
#include "model/fixture.h"
#include "schedule/prompts.h"

#include "session/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 8, LONGEST = 150, STOPS = 5, CANCELLED = 6 };

/* The case's model, as the command opens it: with a tokenizer. Whose does not matter. */
static mica_model *open_case(const model_fixture *f, const mica_model_options *options) {
    mica_model *model;
    char *dir = fixture_copy_folder(f->path, NULL, NULL, NULL);
    char *to = test_format("%s/tokenizer.json", dir);
    char *from = fixture_path("llama3_rope_sharded/tokenizer.json");
    test_list own = test_list_files(dir, "tokenizer.json");
    if (!own.count) test_copy_file(from, to);
    if (mica_model_open(dir, options, &model) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    test_list_free(&own);
    free(from);
    free(to);
    test_temp_dir_remove(dir); /* its files are mapped */
    return model;
}

/* Prompts of all lengths; the last three begin alike. */
static size_t make_ids(const model_fixture *f, int which, int32_t ids[LONGEST]) {
    static const size_t lengths[CLIENTS] = {1, 7, 33, 71, 64, 149, 150, LONGEST};
    int alike = which < 5 ? which : 5;
    for (size_t i = 0; i < lengths[which]; i++)
        ids[i] = (int32_t)((i * i + i * (size_t)(7 * alike + 3) + 11) % (size_t)f->lm->spec.vocab);
    ids[lengths[which] - 1] = which;
    return lengths[which];
}

typedef struct asked {
    int32_t ids[CLIENTS][LONGEST];
    size_t n[CLIENTS];
    mica_generate_options options[CLIENTS];
    client_choice wants[CLIENTS];
    char stop[2];
    const char *stops[1];
} asked;

static int seen, stopped;

/* A letter in the middle of the answer ends it. */
static void choose_stop(asked *a) {
    const client_choice *whole = &a->wants[STOPS];
    const char *text = whole->text.data;
    size_t at = whole->text.len / 2;
    while (at < whole->text.len && !(text[at] > ' ' && text[at] < 127))
        at++;
    if (at == whole->text.len) return;
    a->stop[0] = text[at];
    a->stops[0] = a->stop;
    a->options[STOPS].stop_strings = a->stops;
    a->options[STOPS].stop_string_count = 1;
    stopped++;
}

static void make_asked(const model_fixture *f, const mica_model *model, asked *a) {
    for (int i = 0; i < CLIENTS; i++) {
        a->n[i] = make_ids(f, i, a->ids[i]);
        a->options[i] = (mica_generate_options){
            .max_tokens = 4 + 3 * i, .ignore_eos = true, .logprobs = true, .draft_tokens = i % 3};
        a->wants[i] = generate_alone(model, a->ids[i], a->n[i], &a->options[i]);
        if (i != STOPS) continue;
        choose_stop(a);
        choice_free(&a->wants[i]);
        a->wants[i] = generate_alone(model, a->ids[i], a->n[i], &a->options[i]);
    }
}

/* What a client got before it went is the beginning of its answer. */
static void check_cancelled(const model_fixture *f, const client *c, const client_choice *want) {
    const client_choice *got = &c->choices[0];
    if (got->status != MICA_ECANCELLED) fail_msg("%s: %s", f->name, got->error);
    assert_int_equal(got->ids.len, c->stop_at * sizeof(int32_t));
    assert_memory_equal(got->ids.data, want->ids.data, got->ids.len);
}

static void ask_all(const model_fixture *f, mc_schedule *schedule, const asked *a) {
    client c[CLIENTS];
    gate g;
    gate_shut(&g, schedule);
    for (int i = 0; i < CLIENTS; i++) {
        client_init(&c[i]);
        if (i == CANCELLED) c[i].stop_at = 3;
        must_submit(
            &c[i], schedule,
            &(mc_request_options){.ids = a->ids[i], .n_ids = a->n[i], .generate = &a->options[i]});
    }
    gate_open(&g);
    for (int i = 0; i < CLIENTS; i++) {
        client_wait_ends(&c[i], 1);
        if (i == CANCELLED)
            check_cancelled(f, &c[i], &a->wants[i]);
        else
            choice_compare(&c[i].choices[0], &a->wants[i], f->name);
        client_deinit(&c[i]);
    }
}

/* The longest prompt again: what is known of it, and the same answer. */
static void ask_again(const model_fixture *f, mc_schedule *schedule, const asked *a) {
    client c;
    const int i = CLIENTS - 1;
    client_init(&c);
    must_submit(
        &c, schedule,
        &(mc_request_options){.ids = a->ids[i], .n_ids = a->n[i], .generate = &a->options[i]});
    client_wait_ends(&c, 1);
    choice_compare(&c.choices[0], &a->wants[i], f->name);
    int64_t known = c.choices[0].metrics.reused_tokens;
    if (mc_prefix_available() && known < 64) fail_msg("%s: %d tokens reused", f->name, (int)known);
    client_deinit(&c);
}

static void check_clients(const model_fixture *f) {
    static asked a; /* for its size */
    if (seen++ % test_case_step()) return;
    mica_model *model =
        open_case(f, &(mica_model_options){.threads = 2,
                                           .arithmetic = seen % 2 ? MICA_ARITHMETIC_EXACT
                                                                  : MICA_ARITHMETIC_FAST});
    mc_schedule *schedule = open_schedule(model, &(mc_schedule_options){.rows = CLIENTS});
    make_asked(f, model, &a);
    ask_all(f, schedule, &a);
    ask_again(f, schedule, &a);
    client_wait_idle(schedule);
    mc_schedule_close(&schedule);
    for (int i = 0; i < CLIENTS; i++)
        choice_free(&a.wants[i]);
    mica_model_close(&model);
}

static void test_clients(void **state) {
    (void)state;
    seen = 0;
    fixture_each(check_clients);
    printf("%d stopped by a text\n", stopped);
    assert_true(stopped > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients),
    };
    return cmocka_run_group_tests_name("schedule/families", tests, NULL, NULL);
}

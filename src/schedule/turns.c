/* A schedule whose model another engine computes: its choices come one after another. */
#include "schedule/state.h"

#include "base/system.h"

/* Cancels the stream if its request is over. Within a prefill and between two tokens. */
static void watch(mc_schedule *s, mc_request *request, mica_stream *stream) {
    if (mc_schedule_is_over(s, request)) mica_stream_cancel(stream);
}

typedef struct turn {
    mc_schedule *schedule;
    mc_request *request;
    mica_stream *stream;
} turn;

static void on_prefill(void *user, uint64_t done, uint64_t total) {
    const turn *t = user;
    mica_metrics m = {.struct_bytes = sizeof m};
    watch(t->schedule, t->request, t->stream);
    mica_stream_metrics(t->stream, &m);
    mc_request_tell(t->request, (int64_t)done, (int64_t)total, m.reused_tokens);
}

/* Names the stream that mc_request_cancel stops, or none. */
static void set_turn(mc_schedule *s, mica_stream *stream, const mc_request *request) {
    pthread_mutex_lock(&s->lock);
    s->turn = stream;
    s->turns_of = request;
    pthread_mutex_unlock(&s->lock);
}

static mica_status open_stream(turn *t, size_t choice) {
    mc_schedule *s = t->schedule;
    mica_generate_options options = t->request->generate;
    options.seed += choice;
    options.progress = on_prefill;
    options.progress_user = t;
    if (!s->session) MC_TRY(mica_session_open(s->model, NULL, &s->session));
    return mica_generate_ids(s->session, t->request->given.ids, t->request->given.n_ids, &options,
                             &t->stream);
}

/* Hands out the tokens of the stream. */
static void run_choice(turn *t, size_t choice) {
    mica_token token;
    set_turn(t->schedule, t->stream, t->request);
    watch(t->schedule, t->request, t->stream); /* it may have been cancelled before that */
    while (mica_stream_next(t->stream, &token)) {
        if (!mc_request_give(t->request, choice, &token)) mica_stream_cancel(t->stream);
        mc_schedule_sweep(t->schedule);
        watch(t->schedule, t->request, t->stream);
    }
    set_turn(t->schedule, NULL, NULL);
}

void mc_turns_step(mc_schedule *s) {
    turn t = {.schedule = s};
    size_t choice;
    if (!mc_schedule_take(s, &t.request, &choice)) return;
    mica_metrics m = {.struct_bytes = sizeof m};
    mica_finish finish = MICA_FINISH_ERROR;
    mica_status status = open_stream(&t, choice);
    if (status == MICA_OK) {
        run_choice(&t, choice);
        status = mica_stream_status(t.stream);
        finish = mica_stream_finish(t.stream);
        mica_stream_metrics(t.stream, &m);
        mc_schedule_count_prompt(s, m.prompt_tokens, m.reused_tokens);
    }
    mc_schedule_end(s, t.request, choice, status, finish, &m);
    mica_stream_close(&t.stream);
}

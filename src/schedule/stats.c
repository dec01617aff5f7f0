#include "schedule/state.h"

void mc_schedule_count_step(mc_schedule *s, size_t n) {
    pthread_mutex_lock(&s->lock);
    s->stats.steps++;
    s->stats.step_rows += n;
    pthread_mutex_unlock(&s->lock);
}

void mc_schedule_count_prompt(mc_schedule *s, int64_t tokens, int64_t cached) {
    pthread_mutex_lock(&s->lock);
    s->stats.prompt_tokens += (uint64_t)tokens;
    s->stats.cached_tokens += (uint64_t)cached;
    pthread_mutex_unlock(&s->lock);
}

void mc_schedule_get_stats(mc_schedule *s, mc_schedule_stats *stats) {
    pthread_mutex_lock(&s->lock);
    *stats = s->stats;
    pthread_mutex_unlock(&s->lock);
}

double mc_schedule_retry_seconds(mc_schedule *s) {
    pthread_mutex_lock(&s->lock);
    double turns = (double)(s->stats.waiting + 1) / (double)s->options.rows;
    double wait = turns * (double)s->choice_us * 1e-6;
    pthread_mutex_unlock(&s->lock);
    return wait < 1.0 ? 1.0 : wait > 600.0 ? 600.0 : wait;
}

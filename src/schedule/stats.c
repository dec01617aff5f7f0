#include "schedule/state.h"

const double mc_schedule_bounds[MC_SCHEDULE_BOUNDS] = {0.001, 0.0025, 0.005, 0.01,  0.025, 0.05,
                                                       0.1,   0.25,   0.5,   1.0,   2.5,   5.0,
                                                       10.0,  25.0,   50.0,  100.0, 250.0, 600.0};

static mc_seconds *seconds_of(mc_schedule_stats *stats, mc_time which) {
    switch (which) {
    case MC_QUEUE_TIME:
        return &stats->queue_time;
    case MC_FIRST_TOKEN_TIME:
        return &stats->first_token_time;
    case MC_TOKEN_TIME:
        return &stats->token_time;
    case MC_TOTAL_TIME:
        break;
    }
    return &stats->total_time;
}

void mc_schedule_count_seconds(mc_schedule *s, mc_time which, uint64_t us) {
    double seconds = (double)us * 1e-6;
    int bucket = 0;
    while (bucket < MC_SCHEDULE_BOUNDS && seconds > mc_schedule_bounds[bucket])
        bucket++;
    pthread_mutex_lock(&s->lock);
    mc_seconds *counted = seconds_of(&s->stats, which);
    counted->counts[bucket]++;
    counted->count++;
    counted->sum += seconds;
    pthread_mutex_unlock(&s->lock);
}

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

void mc_schedule_count_cache(mc_schedule *s, uint64_t used_bytes, uint64_t kept_bytes,
                             size_t paused, uint64_t pauses) {
    pthread_mutex_lock(&s->lock);
    s->stats.cache_bytes = used_bytes;
    s->stats.kept_bytes = kept_bytes;
    s->stats.paused = paused;
    s->stats.pauses = pauses;
    pthread_mutex_unlock(&s->lock);
}

void mc_schedule_count_swaps(mc_schedule *s, uint64_t swaps, uint64_t swapped_bytes) {
    pthread_mutex_lock(&s->lock);
    s->stats.swaps = swaps;
    s->stats.swapped_bytes = swapped_bytes;
    pthread_mutex_unlock(&s->lock);
}

void mc_schedule_count_masks(mc_schedule *s, mc_mask_times times) {
    pthread_mutex_lock(&s->lock);
    s->stats.mask_seconds = times.computed;
    s->stats.mask_wait_seconds = times.waited;
    pthread_mutex_unlock(&s->lock);
}

static void copy_stats(mc_schedule *s, mc_schedule_stats *stats) {
    pthread_mutex_lock(&s->lock);
    *stats = s->stats;
    pthread_mutex_unlock(&s->lock);
}

static void add_seconds(mc_seconds *to, const mc_seconds *more) {
    for (int i = 0; i <= MC_SCHEDULE_BOUNDS; i++)
        to->counts[i] += more->counts[i];
    to->count += more->count;
    to->sum += more->sum;
}

/* Adds another lane's; a text is of one lane, so block_tokens and cache_tokens stay. */
static void add_stats(mc_schedule_stats *to, const mc_schedule_stats *more) {
    size_t *const sizes[] = {&to->rows, &to->queue, &to->running, &to->waiting, &to->paused};
    const size_t more_sizes[] = {more->rows, more->queue, more->running, more->waiting,
                                 more->paused};
    uint64_t *const counts[] = {&to->steps,           &to->step_rows,        &to->prompt_tokens,
                                &to->cached_tokens,   &to->generated_tokens, &to->drafted_tokens,
                                &to->accepted_tokens, &to->pauses,           &to->swaps,
                                &to->swapped_bytes,   &to->stopped,          &to->length,
                                &to->cancelled,       &to->timed_out,        &to->failed,
                                &to->refused_context, &to->refused_busy,     &to->refused_other,
                                &to->cache_bytes,     &to->kept_bytes,       &to->cache_budget};
    const uint64_t more_counts[] = {
        more->steps,           more->step_rows,        more->prompt_tokens,
        more->cached_tokens,   more->generated_tokens, more->drafted_tokens,
        more->accepted_tokens, more->pauses,           more->swaps,
        more->swapped_bytes,   more->stopped,          more->length,
        more->cancelled,       more->timed_out,        more->failed,
        more->refused_context, more->refused_busy,     more->refused_other,
        more->cache_bytes,     more->kept_bytes,       more->cache_budget};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        *sizes[i] += more_sizes[i];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *counts[i] += more_counts[i];
    to->mask_seconds += more->mask_seconds;
    to->mask_wait_seconds += more->mask_wait_seconds;
    add_seconds(&to->queue_time, &more->queue_time);
    add_seconds(&to->first_token_time, &more->first_token_time);
    add_seconds(&to->token_time, &more->token_time);
    add_seconds(&to->total_time, &more->total_time);
}

void mc_schedule_get_stats(mc_schedule *s, mc_schedule_stats *stats) {
    copy_stats(s, stats);
    while ((s = s->beside)) {
        mc_schedule_stats more;
        copy_stats(s, &more);
        add_stats(stats, &more);
    }
}

double mc_schedule_retry_seconds(mc_schedule *s) {
    pthread_mutex_lock(&s->lock);
    double turns = (double)(s->stats.waiting + 1) / (double)s->options.rows;
    double wait = turns * (double)s->choice_us * 1e-6;
    pthread_mutex_unlock(&s->lock);
    return wait < 1.0 ? 1.0 : wait > 600.0 ? 600.0 : wait;
}

#include "serve/common/batch_queue.h"

#include "base/alloc.h"
#include "base/system.h"

#include <time.h>

/* ---- objects ---- */

static const char *const states[MC_BATCH_STATES] = {
    "validating", "failed",  "in_progress", "finalizing",
    "completed",  "expired", "cancelling",  "cancelled",
};

/* The members that say when a batch got into a state. */
static const char *const times[MC_BATCH_STATES] = {
    "created_at",   "failed_at",  "in_progress_at", "finalizing_at",
    "completed_at", "expired_at", "cancelling_at",  "cancelled_at",
};

static void put_batch(mc_put *put, const mc_queued_batch *batch) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "id", batch->id);
    mc_put_text(put, "object", "batch");
    mc_put_text(put, "endpoint", batch->endpoint);
    mc_put_text(put, "input_file_id", batch->input);
    mc_put_text(put, "completion_window", "24h");
    mc_put_text(put, "status", states[batch->state]);
    if (batch->problems.len) {
        mc_put_open(put, "errors", '{');
        mc_put_text(put, "object", "list");
        mc_put_open(put, "data", '[');
        mc_put_members(put, &batch->problems);
        mc_put_close(put, ']');
        mc_put_close(put, '}');
    } else {
        mc_put_null(put, "errors");
    }
    mc_put_text(put, "output_file_id", batch->output[0] ? batch->output : NULL);
    mc_put_text(put, "error_file_id", batch->errors[0] ? batch->errors : NULL);
    for (int i = 0; i < MC_BATCH_STATES; i++) {
        if (batch->since[i])
            mc_put_int(put, times[i], batch->since[i]);
        else
            mc_put_null(put, times[i]);
    }
    mc_put_int(put, "expires_at", batch->since[MC_BATCH_VALIDATING] + MC_BATCH_HOURS * 3600);
    mc_put_open(put, "request_counts", '{');
    mc_put_int(put, "total", (int64_t)batch->total);
    mc_put_int(put, "completed", (int64_t)batch->completed);
    mc_put_int(put, "failed", (int64_t)batch->failed);
    mc_put_close(put, '}');
    mc_put_json(put, "metadata", batch->metadata.len ? batch->metadata.data : "null");
    mc_put_close(put, '}');
}

/* ---- the thread ---- */

static bool is_end(mc_batch_state state) {
    return state == MC_BATCH_FAILED || state == MC_BATCH_COMPLETED || state == MC_BATCH_EXPIRED ||
           state == MC_BATCH_CANCELLED;
}

void mc_batch_set_state(mc_queued_batch *batch, mc_batch_state state) {
    if (!is_end(batch->state) && is_end(state)) atomic_fetch_sub(batch->unfinished, 1);
    batch->state = state;
    batch->since[state] = (int64_t)time(NULL);
}

/* How many keys a batch's is behind that of the last one, round about: that one's is the last. */
static size_t distance(const mc_batch_queue *queue, const mc_queued_batch *batch) {
    return batch->key - queue->key - 1;
}

/* The keys' turns go round, so that who has many batches does not hold up others. */
static mc_queued_batch *find_next(mc_batch_queue *queue) {
    mc_queued_batch *next = NULL;
    for (mc_queued_batch *at = queue->first; at; at = at->next)
        if (at->state == MC_BATCH_VALIDATING &&
            (!next || distance(queue, at) < distance(queue, next)))
            next = at;
    if (next) queue->key = next->key;
    return next;
}

static void *work(void *context) {
    mc_batch_queue *queue = context;
    pthread_mutex_lock(&queue->lock);
    while (!queue->ending) {
        mc_queued_batch *batch = find_next(queue);
        if (!batch) {
            pthread_cond_wait(&queue->changed, &queue->lock);
            continue;
        }
        batch->busy = true;
        pthread_mutex_unlock(&queue->lock);
        queue->run(queue, batch);
        pthread_mutex_lock(&queue->lock);
        batch->busy = false;
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static void free_batch(mc_queued_batch *batch) {
    mc_buffer_deinit(&batch->metadata);
    mc_buffer_deinit(&batch->problems);
    mc_free(batch);
}

mica_status mc_batch_queue_open(mc_batch_queue *queue, mica_server *server,
                                void (*run)(mc_batch_queue *queue, mc_queued_batch *batch)) {
    *queue = (mc_batch_queue){.server = server, .run = run, .last = &queue->first};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    if (mc_thread_start(&queue->thread, work, queue) == 0) return MICA_OK;
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    return mc_fail_nomem("a thread of the server");
}

void mc_batch_queue_close(mc_batch_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->ending = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    for (mc_queued_batch *at = queue->first, *next; at; at = next) {
        next = at->next;
        free_batch(at);
    }
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

/* ---- what clients do ---- */

static size_t count_of(const mc_batch_queue *queue, size_t key) {
    size_t count = 0;
    for (const mc_queued_batch *at = queue->first; at; at = at->next)
        count += at->key == key;
    return count;
}

/* Forgets the key's oldest batch that has ended. false: none has. Called with the lock held. */
static bool forget_one(mc_batch_queue *queue, size_t key) {
    mc_queued_batch **link = &queue->first;
    while (*link && ((*link)->key != key || (*link)->busy || !is_end((*link)->state)))
        link = &(*link)->next;
    mc_queued_batch *batch = *link;
    if (!batch) return false;
    *link = batch->next;
    if (!*link) queue->last = link;
    free_batch(batch);
    return true;
}

bool mc_batch_queue_add(mc_batch_queue *queue, size_t key, const char *input, const char *endpoint,
                        mc_buffer *metadata, mc_put *put, mc_failure *failure) {
    mc_queued_batch *batch = mc_calloc(1, sizeof *batch);
    if (!batch) return mc_failure_of(failure, mc_fail_nomem("a batch"), NULL);
    mc_chance_name("batch", batch->id);
    snprintf(batch->input, sizeof batch->input, "%s", input);
    batch->key = key;
    batch->endpoint = endpoint;
    batch->metadata = *metadata;
    *metadata = (mc_buffer){0};
    mc_batch_set_state(batch, MC_BATCH_VALIDATING);
    pthread_mutex_lock(&queue->lock);
    bool fits = count_of(queue, key) < MC_BATCHES || forget_one(queue, key);
    if (fits) {
        *queue->last = batch;
        queue->last = &batch->next;
        batch->unfinished = &queue->unfinished;
        atomic_fetch_add(&queue->unfinished, 1);
        put_batch(put, batch);
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    if (fits) return true;
    free_batch(batch);
    return mc_failure_set(failure, 429, "too_many_batches", NULL,
                          "%d of your batches wait already, as many as may", MC_BATCHES);
}

/* Called with the lock held. */
static mc_queued_batch *find_batch(mc_batch_queue *queue, size_t key, mc_str id) {
    mc_queued_batch *batch = queue->first;
    while (batch && (batch->key != key || !mc_str_is(id, batch->id)))
        batch = batch->next;
    return batch;
}

bool mc_batch_queue_put(mc_batch_queue *queue, size_t key, mc_str id, mc_put *put) {
    pthread_mutex_lock(&queue->lock);
    const mc_queued_batch *batch = find_batch(queue, key, id);
    if (batch) put_batch(put, batch);
    pthread_mutex_unlock(&queue->lock);
    return batch != NULL;
}

bool mc_batch_queue_cancel(mc_batch_queue *queue, size_t key, mc_str id, mc_put *put, bool *ended) {
    pthread_mutex_lock(&queue->lock);
    mc_queued_batch *batch = find_batch(queue, key, id);
    *ended = batch && is_end(batch->state);
    if (batch && !*ended) {
        if (batch->state != MC_BATCH_CANCELLING) mc_batch_set_state(batch, MC_BATCH_CANCELLING);
        if (!batch->busy) mc_batch_set_state(batch, MC_BATCH_CANCELLED); /* it had not begun */
        put_batch(put, batch);
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return batch != NULL;
}

bool mc_batch_queue_list(mc_batch_queue *queue, size_t key, mc_str after, size_t limit,
                         mc_put *put) {
    const mc_queued_batch *found[MC_BATCHES];
    size_t n = 0, end, count = 0;
    pthread_mutex_lock(&queue->lock);
    for (const mc_queued_batch *at = queue->first; at; at = at->next)
        if (at->key == key) found[n++] = at;
    for (end = n; after.ptr && end > 0; end--)
        if (mc_str_is(after, found[end - 1]->id)) break;
    bool known = !after.ptr || end > 0;
    if (after.ptr && known) end--;
    mc_put_text(put, "object", "list");
    mc_put_open(put, "data", '[');
    for (; known && count < limit && count < end; count++)
        put_batch(put, found[end - 1 - count]);
    mc_put_close(put, ']');
    if (count) {
        mc_put_text(put, "first_id", found[end - 1]->id);
        mc_put_text(put, "last_id", found[end - count]->id);
    }
    mc_put_bool(put, "has_more", known && count < end);
    pthread_mutex_unlock(&queue->lock);
    return known;
}

#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "serve/models/loader.h"

#include "base/alloc.h"
#include "base/system.h"
#include "device/device.h"
#include "engine/model.h"
#include "serve/common/generation.h"
#include "serve/models/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* How long a load waits for models that have requests to give up their room; and how long a loaded
 * one stays at least that nobody waits for: who asked for it will come again. */
enum { ROOM_US = 60000000, FIRST_US = 5000000, SECOND_US = 1000000 };

/* ---- one model ---- */

/* The other ranks close it, too. */
static void close_model(mc_served *served) {
    mc_lead_say(served->lead, MC_LEAD_CLOSE_MODEL, NULL, 0);
    (void)mc_lead_send(served->lead); /* it fails where the team is broken */
    mc_model_release(served->model);
    served->model = NULL;
    mc_lead_close(&served->lead);
}

static void close_parts(mc_served *served) {
    mc_schedule_close(&served->schedule);
    mc_kv_source_close(&served->events);
    close_model(served);
}

void mc_served_free(mc_served *served) {
    close_parts(served);
    mc_free(served->name);
    mc_free(served->base);
    mc_free(served->folder);
    mc_free(served->adapter);
    mc_free((char *)served->options.prefix_cache);
    mc_free(served);
}

static mica_status check_limits(const mica_serving_options *options) {
    if (options->max_tokens < 0)
        return mc_fail(MICA_EINVAL, "max_tokens %" PRId64 ": want 1 or more, or 0 for no limit",
                       options->max_tokens);
    if (options->max_priority < 0 || options->max_priority > MC_MAX_PRIORITY)
        return mc_fail(MICA_EINVAL, "max_priority %d: want 0 to %d", options->max_priority,
                       MC_MAX_PRIORITY);
    return MICA_OK;
}

/* The name of its adapter, which requests append to that of the model; NULL: it has none. */
static const char *adapter_of(const mc_served *served) {
    return served->base ? served->name + strlen(served->base) + 1 : NULL;
}

static mica_status open_events(mc_served *served) {
    if (!served->models->events) return MICA_OK;
    return mc_kv_source_open(served->models->events, served->base ? served->base : served->name,
                             adapter_of(served), &served->events);
}

mica_status mc_served_open(mc_served *served, const mica_model *model, uint64_t cache_bytes) {
    const mica_serving_options *options = &served->options;
    mc_schedule_options schedule = {.rows = options->rows,
                                    .step_tokens = options->step_tokens,
                                    .queue = options->queue,
                                    .draft_tokens = options->draft_tokens,
                                    .prefix_folder = options->prefix_cache,
                                    .notice = options->notice,
                                    .notice_user = options->notice_user,
                                    .cache_bytes = cache_bytes,
                                    .lead = served->lead};
    mc_schedule_stats stats;
    served->model = model;
    mica_status status = check_limits(options);
    if (status == MICA_OK) status = open_events(served);
    schedule.kv_events = mc_kv_source_events(served->events);
    if (status == MICA_OK) status = mc_schedule_open(model, &schedule, &served->schedule);
    if (status != MICA_OK) {
        close_parts(served);
        return status;
    }
    mc_schedule_get_stats(served->schedule, &stats);
    served->cache_bytes = stats.cache_budget;
    served->created = (int64_t)time(NULL);
    return MICA_OK;
}

bool mc_served_has_failed(const mc_served *served) {
    return served->failed_us && mc_now_us() - served->failed_us < MC_FAILED_US;
}

/* Takes a folder's path out of a text: where models lie is nothing that clients need to know. */
static void drop_folder(char *text, const char *folder) {
    size_t len = folder ? strlen(folder) : 0;
    for (char *at = text; len > 0 && (at = strstr(at, folder));)
        memmove(at, at + len + mc_is_slash(at[len]), strlen(at + len + mc_is_slash(at[len])) + 1);
}

/* It is the server's fault, not that of the request, whatever is wrong with the files. */
bool mc_served_refuse(const mc_served *served, mc_failure *failure) {
    char text[sizeof served->error];
    snprintf(text, sizeof text, "%s", served->error);
    drop_folder(text, served->adapter);
    drop_folder(text, served->folder);
    return mc_failure_set(failure, served->status == MICA_ENOMEM ? 503 : 500, "model_not_loaded",
                          "model", "%.200s cannot be loaded: %.800s", served->name, text);
}

uint64_t mc_served_expires(const mc_served *served) {
    if (served->state != MC_SERVED_LOADED || !served->folder || served->keep_us == MC_KEEP_ALWAYS)
        return UINT64_MAX;
    return (served->refs ? mc_now_us() : served->used_us) + (uint64_t)served->keep_us;
}

/* ---- who waits ---- */

bool mc_loader_is_late(const mc_served *served, const mc_exchange *http) {
    double seconds = served->options.max_seconds;
    uint64_t waited = http->load_us + (mc_now_us() - http->awaited_us);
    return seconds > 0.0 && (double)waited > seconds * 1e6;
}

void mc_loader_settle(mc_models *models, mc_served *served, mc_exchange *http) {
    bool late = mc_loader_is_late(served, http);
    http->awaited = NULL;
    http->load_us += mc_now_us() - http->awaited_us;
    if (models->ending)
        mc_failure_set(&http->failure, 503, "draining", NULL, "the server is being stopped");
    else if (mc_cancel_check(&http->cancel) != MICA_OK)
        mc_failure_of(&http->failure, MICA_ECANCELLED, NULL);
    else if (late)
        mc_failure_set(&http->failure, 504, "timeout", NULL, "the request took too long");
    else if (served->state == MC_SERVED_LOADED)
        http->served = served;
    else
        mc_served_refuse(served, &http->failure);
    if (!http->served) served->refs--;
    mc_exchange_attach(http, &(mc_exchange_work){0}); /* it waits no more */
    mc_handlers_add(models->handlers, &http->item, http->item.run);
}

/* All, in the order in which they came. */
static void settle_all(mc_models *models, mc_served *served) {
    mc_exchange *in_order = NULL;
    while (served->waiting) {
        mc_exchange *http = served->waiting;
        served->waiting = http->next_waiting;
        served->waiting_count--;
        http->next_waiting = in_order;
        in_order = http;
    }
    while (in_order) {
        mc_exchange *http = in_order;
        in_order = http->next_waiting;
        mc_loader_settle(models, served, http);
    }
}

/* Waits until something changes, or that time. */
static void wait_until(mc_models *models, uint64_t until_us) {
    uint64_t now = mc_now_us();
    struct timespec time;
    if (until_us <= now) return;
    uint64_t left = until_us - now, hour = 3600u * (uint64_t)SECOND_US;
    if (left > hour) left = hour;
    clock_gettime(CLOCK_REALTIME, &time);
    uint64_t nanoseconds = (uint64_t)time.tv_nsec + left % SECOND_US * 1000;
    time.tv_sec += (time_t)(left / SECOND_US + nanoseconds / 1000000000u);
    time.tv_nsec = (long)(nanoseconds % 1000000000u);
    pthread_cond_timedwait(&models->changed, &models->lock, &time);
}

/* ---- loading and closing ---- */

/* Opens it together with other ranks, if there are some. */
static mica_status open_together(mc_models *models, mc_served *served,
                                 const mica_model_options *options, mica_model **model) {
    if (!models->team) return mc_model_open(served->folder, options, models->device, model);
    MC_TRY(mc_lead_open(models->team, ++models->leads, &served->lead));
    mc_lead_say(served->lead, MC_LEAD_OPEN_MODEL, NULL, 0);
    mc_lead_say_text(served->lead, served->name);
    mica_status status = mc_lead_send(served->lead);
    if (status == MICA_OK) status = mc_model_open(served->folder, options, models->device, model);
    (void)mc_lead_done(served->lead, status);
    mc_lead_rest(served->lead);
    return status;
}

/* Opens it, without the lock. */
static mica_status open_model(mc_models *models, mc_served *served, uint64_t cache_bytes) {
    mica_model_options options = models->loading.model;
    mica_model *model = NULL;
    options.cancel = &models->cancel;
    options.adapter = served->adapter;
    if (!served->stays) options.chat_template = NULL;
    if (served->was_loaded || !served->stays) options.progress = NULL;
    mica_status status = open_together(models, served, &options, &model);
    if (status != MICA_OK) {
        close_model(served);
        return status;
    }
    if (!models->device && mica_model_device(model)) {
        models->device = mica_model_device(model);
        mc_device_retain(models->device);
    }
    const mica_model *kept = mc_model_retain(model);
    mica_model_close(&model);
    return mc_served_open(served, kept, cache_bytes);
}

/* Opens it, as often as closing others may help. */
static mica_status open_with_memory(mc_models *models, mc_served *served) {
    for (;;) {
        uint64_t cache_bytes = mc_room_cache_bytes(models, served);
        pthread_mutex_unlock(&models->lock);
        mica_status status = open_model(models, served, cache_bytes);
        pthread_mutex_lock(&models->lock);
        mc_served *oldest = status == MICA_ENOMEM ? mc_room_oldest(models, served) : NULL;
        if (!oldest || models->ending) return status;
        mc_loader_close(models, oldest);
    }
}

static void fail_load(mc_models *models, mc_served *served, mica_status status) {
    served->state = MC_SERVED_IDLE;
    served->failed_us = mc_now_us();
    served->status = status;
    snprintf(served->error, sizeof served->error, "%s", mica_last_error());
    models->failures++;
    settle_all(models, served);
    pthread_cond_broadcast(&models->changed);
}

static void load(mc_models *models, mc_served *served) {
    mica_model_info info = {.struct_bytes = sizeof info};
    served->state = MC_SERVED_LOADING;
    mica_status status = open_with_memory(models, served);
    if (status != MICA_OK) {
        fail_load(models, served, status);
        return;
    }
    mica_model_get_info(served->model, &info);
    served->weight_bytes = info.weight_bytes;
    served->state = MC_SERVED_LOADED;
    served->was_loaded = true;
    served->failed_us = 0;
    served->keep_us = served->stays ? MC_KEEP_ALWAYS : models->loading.keep_us;
    served->used_us = mc_now_us() + (served->refs ? 0 : FIRST_US);
    models->loads++;
    settle_all(models, served);
    pthread_cond_broadcast(&models->changed);
    mc_served *oldest; /* now that its size is known */
    while ((oldest = mc_room_find_oldest(models, NULL, served)))
        mc_loader_close(models, oldest);
}

void mc_loader_close(mc_models *models, mc_served *served) {
    served->state = MC_SERVED_CLOSING;
    bool removed = served->removed; /* with its files: who waits for that waits for no saving */
    pthread_mutex_unlock(&models->lock);
    if (removed) mc_schedule_discard(&served->schedule);
    close_parts(served);
    pthread_mutex_lock(&models->lock);
    served->state = served->refs ? MC_SERVED_WANTED : MC_SERVED_IDLE;
    if (served->refs) served->wanted_us = mc_now_us();
    models->unloads++;
    pthread_cond_broadcast(&models->changed);
}

/* ---- the thread ---- */

/* The first that was asked for of those that can be loaded, or need not be waited for any more;
 * NULL: none. *next: when one has waited long enough for room. */
static mc_served *find_wanted(const mc_models *models, uint64_t now, mc_room *room,
                              uint64_t *next) {
    mc_served *first = NULL;
    for (mc_served *at = models->first; at; at = at->next) {
        if (at->state != MC_SERVED_WANTED || (first && at->wanted_us >= first->wanted_us)) continue;
        mc_room there = mc_room_find(models, at);
        if (there == MC_ROOM_LATER && now - at->wanted_us >= ROOM_US) there = MC_ROOM_NEVER;
        if (there == MC_ROOM_LATER) {
            if (at->wanted_us + ROOM_US < *next) *next = at->wanted_us + ROOM_US;
            continue;
        }
        first = at;
        *room = there;
    }
    return first;
}

/* A model whose time is over; NULL: none. *next: when the next one's will be. */
static mc_served *find_expired(const mc_models *models, uint64_t now, uint64_t *next) {
    for (mc_served *at = models->first; at; at = at->next) {
        uint64_t expires = mc_served_expires(at);
        if (!at->refs && expires <= now) return at;
        if (!at->refs && expires < *next) *next = expires;
    }
    return NULL;
}

/* Takes out entries that stand for nothing: of models that are not in memory, and were not named.
 * *next: when the next one's failure is forgotten. */
static void forget(mc_models *models, uint64_t *next) {
    for (mc_served **link = &models->first; *link;) {
        mc_served *at = *link;
        bool idle = at->state == MC_SERVED_IDLE && !at->refs && !at->stays;
        if (idle && !at->removed && mc_served_has_failed(at)) {
            if (at->failed_us + MC_FAILED_US < *next) *next = at->failed_us + MC_FAILED_US;
        } else if (idle) {
            *link = at->next;
            mc_served_free(at);
            continue;
        }
        link = &at->next;
    }
}

/* Does one thing; false: there is nothing to do before *next. */
static bool work(mc_models *models, uint64_t *next) {
    uint64_t now = mc_now_us();
    mc_room room = MC_ROOM_THERE;
    mc_served *expired = find_expired(models, now, next);
    mc_served *wanted = expired ? NULL : find_wanted(models, now, &room, next);
    mc_served *closed =
        wanted && room == MC_ROOM_THERE ? mc_room_find_oldest(models, wanted, wanted) : expired;
    if (closed)
        mc_loader_close(models, closed);
    else if (wanted && room == MC_ROOM_NEVER)
        fail_load(models, wanted, mc_room_fail(models, wanted));
    else if (wanted)
        load(models, wanted);
    return closed || wanted;
}

static void *run_loader(void *context) {
    mc_models *models = context;
    pthread_mutex_lock(&models->lock);
    while (!models->ending) {
        uint64_t next = UINT64_MAX;
        if (work(models, &next)) continue;
        forget(models, &next);
        wait_until(models, next);
    }
    for (mc_served *at = models->first; at; at = at->next)
        settle_all(models, at);
    pthread_mutex_unlock(&models->lock);
    return NULL;
}

mica_status mc_loader_start(mc_models *models) {
    pthread_mutex_lock(&models->lock);
    models->has_thread = mc_thread_start(&models->thread, run_loader, models) == 0;
    pthread_mutex_unlock(&models->lock);
    return models->has_thread ? MICA_OK : mc_fail_nomem("a thread of the server");
}

void mc_loader_end(mc_models *models) {
    pthread_mutex_lock(&models->lock);
    bool ends = models->has_thread && !models->ending;
    models->ending = true;
    mica_cancel_set(&models->cancel);
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    if (ends) pthread_join(models->thread, NULL);
}

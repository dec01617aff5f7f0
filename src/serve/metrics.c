/* /metrics: how the server and its models stand, in Prometheus' text format. */
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* Numbers of a model, each under its own name and, for some, under vLLM's. */
typedef struct number {
    const char *name, *vllm, *type, *help;
    double (*value)(const mc_schedule_stats *stats);
} number;

#define NUMBER(function, expression)                     \
    static double function(const mc_schedule_stats *s) { \
        return (double)(expression);                     \
    }
NUMBER(running, s->running)
NUMBER(waiting, s->waiting)
NUMBER(rows, s->rows)
NUMBER(queue, s->queue)
NUMBER(steps, s->steps)
NUMBER(step_rows, s->step_rows)
NUMBER(prompt_tokens, s->prompt_tokens)
NUMBER(cached_tokens, s->cached_tokens)
NUMBER(generated_tokens, s->generated_tokens)
NUMBER(drafted_tokens, s->drafted_tokens)
NUMBER(accepted_tokens, s->accepted_tokens)
NUMBER(cache_bytes, s->cache_bytes)
NUMBER(kept_bytes, s->kept_bytes)
NUMBER(paused, s->paused)
NUMBER(pauses, s->pauses)
NUMBER(swaps, s->swaps)
NUMBER(swapped_bytes, s->swapped_bytes)
NUMBER(mask_seconds, s->mask_seconds)
NUMBER(mask_wait_seconds, s->mask_wait_seconds)
NUMBER(cache_budget, s->cache_budget)
NUMBER(cache_share, s->cache_budget ? (double)s->cache_bytes / (double)s->cache_budget : 0)

static const number numbers[] = {
    {"mica_requests_running", "vllm:num_requests_running", "gauge", "Answers being computed",
     running},
    {"mica_requests_waiting", "vllm:num_requests_waiting", "gauge", "Requests in the queue",
     waiting},
    {"mica_rows", NULL, "gauge", "Answers that are computed together at most", rows},
    {"mica_queue", NULL, "gauge", "Requests that may wait", queue},
    {"mica_steps_total", NULL, "counter", "Steps of decoding", steps},
    {"mica_step_rows_total", NULL, "counter", "Answers in these steps", step_rows},
    {"mica_prompt_tokens_total", "vllm:prompt_tokens_total", "counter", "Tokens of prompts",
     prompt_tokens},
    {"mica_cached_tokens_total", "vllm:prefix_cache_hits_total", "counter",
     "Tokens of prompts that were in the caches", cached_tokens},
    {NULL, "vllm:prefix_cache_queries_total", "counter", "Tokens of prompts", prompt_tokens},
    {"mica_generated_tokens_total", "vllm:generation_tokens_total", "counter", "Tokens of answers",
     generated_tokens},
    {"mica_drafted_tokens_total", "vllm:spec_decode_num_draft_tokens_total", "counter",
     "Tokens that were guessed and computed ahead", drafted_tokens},
    {"mica_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total", "counter",
     "Of these, tokens that were right", accepted_tokens},
    {"mica_requests_paused", NULL, "gauge", "Running answers that wait for room in the caches",
     paused},
    {"mica_pauses_total", "vllm:num_preemptions_total", "counter",
     "Answers that lost their caches and read their text again", pauses},
    {"mica_swaps_total", NULL, "counter", "Of these, answers whose caches came back from a copy",
     swaps},
    {"mica_swapped_bytes", NULL, "gauge", "Bytes of copies of caches in the host's memory",
     swapped_bytes},
    {"mica_mask_seconds_total", NULL, "counter",
     "Seconds that masks of tokens took, for answers that are constrained", mask_seconds},
    {"mica_mask_wait_seconds_total", NULL, "counter",
     "Seconds that answers waited for them: the rest was computed while steps ran",
     mask_wait_seconds},
    {"mica_cache_bytes", NULL, "gauge", "Bytes of the caches of running answers", cache_bytes},
    {"mica_cache_kept_bytes", NULL, "gauge", "Bytes of caches that are kept for prompts to come",
     kept_bytes},
    {"mica_cache_budget_bytes", NULL, "gauge", "Bytes that all caches may have", cache_budget},
    {NULL, "vllm:kv_cache_usage_perc", "gauge", "Share of the caches' bytes in use", cache_share},
};

/* How answers ended, and why requests were refused. */
typedef struct kind {
    const char *label;
    uint64_t (*count)(const mc_schedule_stats *stats);
} kind;

#define KIND(function, member)                             \
    static uint64_t function(const mc_schedule_stats *s) { \
        return s->member;                                  \
    }
KIND(stopped, stopped)
KIND(length, length)
KIND(cancelled, cancelled)
KIND(timed_out, timed_out)
KIND(failed, failed)
KIND(refused_context, refused_context)
KIND(refused_busy, refused_busy)
KIND(refused_other, refused_other)

static const kind ends[] = {{"stop", stopped},
                            {"length", length},
                            {"abort", cancelled},
                            {"timeout", timed_out},
                            {"error", failed}};
static const kind refusals[] = {
    {"context", refused_context}, {"busy", refused_busy}, {"other", refused_other}};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* What is being written. */
typedef struct page {
    mc_buffer *out;
    mc_served **models; /* [count], loaded */
    size_t count;
    bool failed;
} page;

static void head(page *p, const char *name, const char *type, const char *help) {
    if (!p->failed)
        p->failed =
            !mc_buffer_printf(p->out, "# HELP %s %s.\n# TYPE %s %s\n", name, help, name, type);
}

/* A sample of a model. extra: more labels, with a comma before them. */
static void sample(page *p, const char *name, const char *label, const char *model,
                   const char *extra, double value) {
    if (p->failed) return;
    p->failed = !mc_buffer_printf(p->out, "%s{%s=", name, label) ||
                !mc_json_put_text(p->out, model) || /* escapes what Prometheus escapes */
                !mc_buffer_printf(p->out, "%s} ", extra) || !mc_json_put_number(p->out, value) ||
                !mc_buffer_add_byte(p->out, '\n');
}

/* A number without labels. */
static void put_plain(page *p, const char *name, const char *type, const char *help, double value) {
    head(p, name, type, help);
    if (!p->failed)
        p->failed = !mc_buffer_printf(p->out, "%s ", name) || !mc_json_put_number(p->out, value) ||
                    !mc_buffer_add_byte(p->out, '\n');
}

static void put_numbers(page *p, bool vllm) {
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const char *name = vllm ? numbers[i].vllm : numbers[i].name;
        if (!name) continue;
        head(p, name, numbers[i].type, numbers[i].help);
        for (size_t m = 0; m < p->count; m++) {
            const mc_served *at = p->models[m];
            mc_schedule_stats stats;
            mc_schedule_get_stats(at->schedule, &stats);
            sample(p, name, vllm ? "model_name" : "model", at->name, "", numbers[i].value(&stats));
        }
    }
}

static void put_kinds(page *p, const char *name, const char *help, const char *label,
                      const char *kind_label, const kind *kinds, size_t count) {
    head(p, name, "counter", help);
    for (size_t m = 0; m < p->count; m++) {
        const mc_served *at = p->models[m];
        mc_schedule_stats stats;
        mc_schedule_get_stats(at->schedule, &stats);
        for (size_t i = 0; i < count; i++) {
            char extra[64];
            snprintf(extra, sizeof extra, ",%s=\"%s\"", kind_label, kinds[i].label);
            sample(p, name, label, at->name, extra, (double)kinds[i].count(&stats));
        }
    }
}

/* Times of a model's answers, counted in buckets. */
typedef struct duration {
    const char *name, *vllm, *help;
    const mc_seconds *(*seconds)(const mc_schedule_stats *stats);
} duration;

#define DURATION(function, member)                                  \
    static const mc_seconds *function(const mc_schedule_stats *s) { \
        return &s->member;                                          \
    }
DURATION(queue_time, queue_time)
DURATION(first_token_time, first_token_time)
DURATION(token_time, token_time)
DURATION(total_time, total_time)

static const duration durations[] = {
    {"mica_queue_seconds", "vllm:request_queue_time_seconds", "Time before an answer is begun",
     queue_time},
    {"mica_first_token_seconds", "vllm:time_to_first_token_seconds", "Time to the first token",
     first_token_time},
    {"mica_token_seconds", "vllm:inter_token_latency_seconds", "Time between two tokens",
     token_time},
    {"mica_answer_seconds", "vllm:e2e_request_latency_seconds", "Time of whole answers",
     total_time},
};

static void put_seconds(page *p, const char *name, const char *label, const char *model,
                        const mc_seconds *seconds) {
    char bucket[96], extra[64];
    uint64_t sum = 0;
    snprintf(bucket, sizeof bucket, "%s_bucket", name);
    for (size_t i = 0; i <= MC_SCHEDULE_BOUNDS; i++) {
        sum += seconds->counts[i];
        if (i < MC_SCHEDULE_BOUNDS)
            snprintf(extra, sizeof extra, ",le=\"%g\"", mc_schedule_bounds[i]);
        else
            snprintf(extra, sizeof extra, ",le=\"+Inf\"");
        sample(p, bucket, label, model, extra, (double)sum);
    }
    snprintf(bucket, sizeof bucket, "%s_sum", name);
    sample(p, bucket, label, model, "", seconds->sum);
    snprintf(bucket, sizeof bucket, "%s_count", name);
    sample(p, bucket, label, model, "", (double)seconds->count);
}

static void put_durations(page *p, bool vllm) {
    for (size_t i = 0; i < COUNT(durations); i++) {
        const char *name = vllm ? durations[i].vllm : durations[i].name;
        head(p, name, "histogram", durations[i].help);
        for (size_t m = 0; m < p->count; m++) {
            const mc_served *at = p->models[m];
            mc_schedule_stats stats;
            mc_schedule_get_stats(at->schedule, &stats);
            put_seconds(p, name, vllm ? "model_name" : "model", at->name,
                        durations[i].seconds(&stats));
        }
    }
}

static void put_server(page *p, mica_server *server) {
    mc_server_counts *counts = &server->counts;
    const struct {
        const char *result;
        uint64_t count;
    } results[] = {{"ok", atomic_load(&counts->ok)},
                   {"client_error", atomic_load(&counts->client_errors)},
                   {"server_error", atomic_load(&counts->server_errors)},
                   {"dropped", atomic_load(&counts->dropped)}};
    head(p, "mica_http_requests_total", "counter", "Requests of HTTP that have ended");
    for (size_t i = 0; i < COUNT(results); i++)
        sample(p, "mica_http_requests_total", "result", results[i].result, "",
               (double)results[i].count);
    put_plain(p, "mica_http_requests", "gauge", "Requests of HTTP that are under way",
              atomic_load(&server->under_way));
    put_plain(p, "mica_batches", "gauge", "Batches that have not ended",
              atomic_load(&server->batches.unfinished));
    put_plain(p, "mica_draining", "gauge", "Whether the server is being stopped",
              atomic_load(&server->draining));
}

/* Embeddings, scores, ranks and classes. */
static void put_evaluations(page *p, mica_server *server) {
    static const char *const kinds[MC_EVALUATION_KINDS] = {"embed", "score", "rerank", "classify"};
    static const char *const named[MC_EVALUATION_ENDS] = {"done", "abort", "timeout", "error"};
    mc_evaluation_stats stats;
    mc_evaluator_get_stats(&server->evaluator, &stats);
    put_plain(p, "mica_evaluations_running", "gauge", "Evaluations being computed",
              (double)stats.running);
    put_plain(p, "mica_evaluations_waiting", "gauge", "Evaluations in the queue",
              (double)stats.waiting);
    put_plain(p, "mica_evaluations_refused_total", "counter",
              "Evaluations that found the queue full", (double)stats.refused);
    head(p, "mica_evaluations_total", "counter", "Evaluations, by how they ended");
    for (size_t i = 0; i < MC_EVALUATION_KINDS; i++)
        for (size_t end = 0; end < MC_EVALUATION_ENDS; end++) {
            char extra[32];
            snprintf(extra, sizeof extra, ",end=\"%s\"", named[end]);
            sample(p, "mica_evaluations_total", "kind", kinds[i], extra,
                   (double)stats.kinds[i].ended[end]);
        }
    head(p, "mica_evaluation_tokens_total", "counter", "Tokens of evaluated texts");
    for (size_t i = 0; i < MC_EVALUATION_KINDS; i++)
        sample(p, "mica_evaluation_tokens_total", "kind", kinds[i], "",
               (double)stats.kinds[i].tokens);
    head(p, "mica_evaluation_seconds_total", "counter", "Time of evaluations");
    for (size_t i = 0; i < MC_EVALUATION_KINDS; i++)
        sample(p, "mica_evaluation_seconds_total", "kind", kinds[i], "", stats.kinds[i].seconds);
}

static void put_loads(page *p, mc_models *models) {
    size_t waiting = 0;
    pthread_mutex_lock(&models->lock);
    for (const mc_served *served = models->first; served; served = served->next)
        waiting += served->waiting_count;
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } figures[] = {
        {"mica_model_loads_total", "counter", "Models that were loaded", models->loads},
        {"mica_model_load_failures_total", "counter", "Loads that failed", models->failures},
        {"mica_model_unloads_total", "counter", "Loaded models that were closed", models->unloads}};
    pthread_mutex_unlock(&models->lock);
    for (size_t i = 0; i < COUNT(figures); i++) {
        head(p, figures[i].name, figures[i].type, figures[i].help);
        if (!p->failed)
            p->failed =
                !mc_buffer_printf(p->out, "%s %" PRIu64 "\n", figures[i].name, figures[i].value);
    }
    put_plain(p, "mica_requests_loading", "gauge", "Requests that wait for a model to be loaded",
              (double)waiting);
    put_plain(p, "mica_models", "gauge", "Models in memory", (double)p->count);
}

/* The caches' size, for gateways: Gateway API Inference Extension, model server protocol. */
static void put_cache_config(page *p) {
    static const char name[] = "vllm:cache_config_info";
    head(p, name, "gauge", "Blocks of the caches, and their tokens");
    for (size_t m = 0; m < p->count; m++) {
        mc_schedule_stats stats;
        char extra[96];
        mc_schedule_get_stats(p->models[m]->schedule, &stats);
        if (!stats.block_tokens) continue; /* another engine's */
        snprintf(extra, sizeof extra, ",block_size=\"%" PRId64 "\",num_gpu_blocks=\"%" PRId64 "\"",
                 stats.block_tokens, stats.cache_tokens / stats.block_tokens);
        sample(p, name, "model_name", p->models[m]->name, extra, 1);
    }
}

/* Adds a name to a list with commas. */
static void add_name(page *p, mc_buffer *list, const char *name) {
    p->failed = p->failed || (list->len && !mc_buffer_add_byte(list, ',')) ||
                !mc_buffer_add_text(list, name);
}

/* Models with an adapter: those in memory, and those that requests wait for. */
static void put_adapters(page *p, mc_models *models) {
    static const char name[] = "vllm:lora_requests_info";
    mc_buffer loaded = {0}, waiting = {0};
    pthread_mutex_lock(&models->lock);
    size_t most = models->loading.adapter_count;
    if (models->loading.max_models > 0) most = (size_t)models->loading.max_models;
    for (const mc_served *at = models->first; at; at = at->next) {
        if (at->base && at->state == MC_SERVED_LOADED) add_name(p, &loaded, at->name);
        if (at->base && at->waiting_count) add_name(p, &waiting, at->name);
    }
    pthread_mutex_unlock(&models->lock);
    const char *texts[] = {mc_buffer_cstr(&loaded), mc_buffer_cstr(&waiting)};
    p->failed = p->failed || !texts[0] || !texts[1];
    head(p, name, "gauge", "Models with an adapter: in memory, and waited for; since 1970");
    if (!p->failed)
        p->failed =
            !mc_buffer_printf(p->out, "%s{max_lora=\"%zu\",running_lora_adapters=", name, most) ||
            !mc_json_put_text(p->out, texts[0]) ||
            !mc_buffer_add_text(p->out, ",waiting_lora_adapters=") ||
            !mc_json_put_text(p->out, texts[1]) ||
            !mc_buffer_printf(p->out, "} %lld\n", (long long)time(NULL));
    mc_buffer_deinit(&loaded);
    mc_buffer_deinit(&waiting);
}

static bool metrics(mc_exchange *http) {
    mica_server *server = http->server;
    page p = {.out = &http->out};
    p.models = mc_models_hold(&server->models, &p.count);
    put_server(&p, server);
    put_loads(&p, &server->models);
    put_numbers(&p, false);
    put_kinds(&p, "mica_answers_total", "Answers, by how they ended", "model", "end", ends,
              COUNT(ends));
    put_kinds(&p, "mica_refused_total", "Requests that were refused, and why", "model", "reason",
              refusals, COUNT(refusals));
    put_durations(&p, false);
    put_evaluations(&p, server);
    if (server->options.vllm_metrics) {
        put_numbers(&p, true);
        put_kinds(&p, "vllm:request_success_total", "Answers, by how they ended", "model_name",
                  "finished_reason", ends, 3);
        put_durations(&p, true);
        put_cache_config(&p);
        put_adapters(&p, &server->models);
    }
    mc_models_drop(&server->models, p.models, p.count);
    if (p.failed) return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, 200, "text/plain; version=0.0.4; charset=utf-8");
    return true;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("GET", "/metrics", metrics, .flags = MC_ENDPOINT_AT_ONCE | MC_ENDPOINT_ALWAYS,
                .help =
                    "requests, tokens, caches and times in Prometheus' text format, as mica_*; "
                    "where the server is asked to, also under the names that vLLM made customary"),
};

const mc_endpoint_list mc_endpoints_metrics = {"Metrics", endpoints, COUNT(endpoints)};

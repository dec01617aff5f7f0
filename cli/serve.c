/* mica serve: answers requests over HTTP. */
#define _POSIX_C_SOURCE 200809L
#include "answer.h"
#include "heap.h"
#include "model.h"
#include "print.h"
#include "ranks.h"
#include "report.h"
#include "serve_keys.h"
#include "serve_models.h"
#include "serve_system.h"
#include "ui.h"
#include "verb.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct serve_values {
    const char *host;
    int64_t port;
    const char *name;
    const char *api_key, *api_key_file;
    bool insecure, downloads;
    cli_texts origins, hosts;
    const char *certificate, *certificate_key;
    int64_t max_body, max_connections, max_connections_per_host;
    int64_t rows, queue, step_tokens, cache_bytes;
    int64_t draft_tokens;
    const char *prefix_cache;
    double max_seconds;
    int64_t max_tokens, max_priority;
    bool log, vllm_metrics;
    const char *kv_events, *kv_events_replay, *kv_events_topic, *kv_events_seed;
    double keep_alive;
    int64_t max_models, model_memory;
    bool named_only;
    cli_texts adapters;
    cli_model_values model;
} serve_values;

enum { MAX_HOST = 1024 };

/* The server that signals stop. */
static _Atomic(mica_server *) stopped;
static atomic_int signals;

static void add_text(char *line, size_t *len, const char *text) {
    size_t n = strlen(text);
    memcpy(line + *len, text, n);
    *len += n;
}

/* Adds a count of things, without what a signal handler may not call. */
static void add_count(char *line, size_t *len, int count, const char *thing, const char *plural) {
    char digits[16];
    size_t n = 0;
    for (int rest = count; rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    while (n > 0)
        line[(*len)++] = digits[--n];
    add_text(line, len, thing);
    if (count > 1) add_text(line, len, plural);
}

/* Says what the server waits for, if it does. */
static void tell_waiting(const mica_server *server) {
    char line[160];
    int requests, batches;
    size_t len = 0;
    mica_server_under_way(server, &requests, &batches);
    if (requests <= 0 && batches <= 0) return;
    add_text(line, &len, "mica: waiting for ");
    if (requests > 0) add_count(line, &len, requests, " request", "s");
    if (requests > 0 && batches > 0) add_text(line, &len, " and ");
    if (batches > 0) add_count(line, &len, batches, " batch", "es");
    add_text(line, &len, "; again to end at once\n");
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}

/* The first signal drains the server, the second ends it, the third ends the program. */
static void on_stop(int signo) {
    int saved = errno;
    (void)signo;
    mica_server *server = atomic_load(&stopped);
    int before = atomic_fetch_add(&signals, 1);
    if (before > 1 || !server) _exit(CLI_INTERRUPTED);
    if (before == 0) tell_waiting(server);
    mica_server_stop(server);
    errno = saved;
}

static void log_line(void *user, const char *line) {
    (void)user;
    cli_print(stderr, "mica: %s\n", line);
}

/* Where to listen. A port may stand behind the address, as mica ps and other programs write it. */
static int find_place(const serve_values *values, char host[MAX_HOST], int *port) {
    const char *text = values->host;
    *port = (int)values->port;
    snprintf(host, MAX_HOST, "%s", text);
    if (strncmp(text, "unix:", 5) == 0) return CLI_DONE;
    if (strncmp(text, "http://", 7) == 0) text += 7;
    bool bracket = text[0] == '[';
    size_t len = strcspn(text + bracket, bracket ? "]" : ":/");
    const char *end = text + bracket + len + (bracket && text[bracket + len]);
    if (!bracket && *end == ':' && strchr(end + 1, ':')) return CLI_DONE; /* ::1 */
    size_t digits = *end == ':' ? strspn(end + 1, "0123456789") : 0;
    const char *rest = end + digits + (digits > 0);
    if (len == 0 || digits > 5 || (bracket && text[1 + len] != ']') ||
        (*rest && strcmp(rest, "/") != 0))
        return cli_usage("serve", "--host: '%s' is no address", values->host);
    if (digits > 0) *port = atoi(end + 1);
    snprintf(host, MAX_HOST, "%.*s", (int)len, text + bracket);
    return CLI_DONE;
}

static mica_server_options server_options(const serve_values *values, const cli_keys *keys,
                                          const char *host, int port) {
    return (mica_server_options){
        .struct_bytes = sizeof(mica_server_options),
        .host = host,
        .port = port,
        .insecure = values->insecure,
        .downloads = values->downloads,
        .vllm_metrics = values->vllm_metrics,
        .kv_events = values->kv_events,
        .kv_events_replay = values->kv_events_replay,
        .kv_events_topic = values->kv_events_topic,
        .kv_events_seed = values->kv_events_seed,
        .certificate = values->certificate,
        .certificate_key = values->certificate_key,
        .api_keys = (const char *const *)keys->texts,
        .api_key_count = keys->count,
        .origins = values->origins.values,
        .origin_count = values->origins.count,
        .hosts = values->hosts.values,
        .host_count = values->hosts.count,
        .max_body = (uint64_t)values->max_body,
        .max_connections = (int)values->max_connections,
        .max_connections_per_host = (int)values->max_connections_per_host,
        .log = values->log ? log_line : NULL,
    };
}

/* Whether a file of a folder has one of some texts. */
static bool file_has(const char *folder, const char *name, const char *const *texts, size_t count) {
    static char text[1 << 16];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
    for (size_t i = 0; i < count; i++)
        if (strstr(text, texts[i])) return true;
    return false;
}

/* What the first model can be asked: a path, and the members of a request. */
typedef struct example {
    const char *path, *body;
    bool talks;
} example;

static example find_example(const char *folder) {
    static const char *const rankers[] = {"ForSequenceClassification"},
                             *const encoders[] = {"\"bert\"", "\"roberta\"", "\"xlm-roberta\"",
                                                  "\"modernbert\"", "\"nomic_bert\""},
                             *const pooled[] = {".Pooling"};
    if (file_has(folder, "config.json", rankers, 1))
        return (example){"/v1/rerank", "\"query\": \"Hello\", \"documents\": [\"Hi\", \"Bye\"]",
                         false};
    if (file_has(folder, "modules.json", pooled, 1) ||
        file_has(folder, "config.json", encoders, CLI_COUNT(encoders)))
        return (example){"/v1/embeddings", "\"input\": \"Hello\"", false};
    return (example){"/v1/chat/completions",
                     "\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]", true};
}

/* Where it listens, and what can be typed to see that. */
static void greet(const mica_server *server, const serve_models *models,
                  const serve_values *values) {
    const char *address = mica_server_address(server);
    bool file = strncmp(address, "unix:", 5) == 0;
    bool key = values->api_key || values->api_key_file;
    const example ask = find_example(models->folders[0]);
    fprintf(stderr, "mica: serving ");
    for (size_t i = 0; i < models->count; i++)
        cli_print(stderr, "%s%s", i ? ", " : "", models->names[i]);
    cli_print(stderr, " at %s\n", address);
    if (!file && ask.talks)
        fprintf(stderr, "  A browser shows a page to talk on there. To ask by hand:\n");
    cli_print(stderr, "  curl %s%s%s", file ? "--unix-socket " : "", file ? address + 5 : "",
              file ? " " : "");
    if (key)
        cli_print(stderr, "-H \"Authorization: Bearer %s\" ",
                  getenv("MICA_API_KEY") ? "$MICA_API_KEY" : "KEY");
    cli_print(stderr, "%s%s -d '{\"model\": \"%s\", %s}'\n", file ? "http://localhost" : address,
              ask.path, models->names[0], ask.body);
}

static void print_notice(void *user, const char *text) {
    (void)user;
    cli_print(stderr, "mica: %s\n", text);
}

/* Loads the models, while the server says that it is loading; a rank behind 0, which has no server,
 * opens and computes them with rank 0 until that ends. returns an exit code */
static int load(const serve_values *values, const serve_models *models, const char *template,
                mica_server *server) {
    const char *places[CLI_MODEL_PLACES];
    const mica_serving_options serving = {
        .struct_bytes = sizeof serving,
        .rows = (int)values->rows,
        .step_tokens = values->step_tokens,
        .queue = (size_t)values->queue,
        .cache_bytes = (uint64_t)values->cache_bytes << 20,
        .max_seconds = values->max_seconds,
        .max_tokens = values->max_tokens,
        .max_priority = (int)values->max_priority,
        .draft_tokens = (int)values->draft_tokens,
        .prefix_cache = values->prefix_cache,
        .notice = print_notice,
    };
    mica_model_options options = cli_model_get_options(&values->model);
    options.struct_bytes = sizeof options;
    options.adapter = models->own_adapter;
    options.chat_template = template;
    options.progress = server ? cli_progress_tick : NULL;
    const mica_loading_options loading = {
        .struct_bytes = sizeof loading,
        .names = models->names,
        .folders = models->folders,
        .count = models->count,
        .places = places,
        .place_count = values->named_only ? 0 : cli_model_places(places),
        .adapter_names = models->adapter_names,
        .adapter_folders = models->adapter_folders,
        .adapter_count = models->adapter_count,
        .model = &options,
        .serving = &serving,
        /* 0 is the default there */
        .keep_alive_seconds = values->keep_alive == 0 ? 1e-6 : values->keep_alive,
        .max_models = (int)values->max_models,
        .memory_bytes = (uint64_t)values->model_memory << 20,
    };
    if (server) cli_progress_start("loading", false);
    mica_status status = server ? mica_server_load(server, &loading) : mica_server_follow(&loading);
    if (server) cli_progress_clear();
    if (status != MICA_OK) cli_model_report(status, models->folders[models->count - 1], &options);
    return status == MICA_OK ? CLI_DONE : CLI_FAILED;
}

/* Finds and loads the models, and runs until a signal stops it. */
static int serve(const serve_values *values, char **words, int count, mica_server *server) {
    serve_models models = {0};
    cli_text template = {0};
    const serve_named named = {values->model.model, values->name, values->model.yes};
    int code = serve_models_find(&named, words, count, &values->adapters, &models);
    if (code == CLI_DONE) code = cli_model_read_template(&values->model, "serve", &template);
    if (code == CLI_DONE) code = load(values, &models, template.data, server);
    if (code == CLI_DONE && server) {
        greet(server, &models, values);
        cli_heap_watch(server);
        mica_status status = mica_server_run(server);
        cli_heap_unwatch();
        if (status != MICA_OK)
            code = status == MICA_ECANCELLED ? CLI_INTERRUPTED : cli_fail_status(status);
    }
    free(template.data);
    serve_models_free(&models);
    return code;
}

static void on_first(int signo) {
    (void)signo;
    if (atomic_fetch_add(&signals, 1) > 0) _exit(CLI_INTERRUPTED);
}

/* A rank behind 0. It ends when rank 0 does, which gets the same signals: at the second one at
 * once. */
static int follow(const serve_values *values, char **args, int count) {
    cli_heap_set_up();
    cli_serve_watch_signals(on_first);
    return serve(values, args, count, NULL);
}

static int fail_to_open(mica_status status, const serve_values *values) {
    const char *text = mica_last_error();
    int code = cli_fail_status(status);
    if (strstr(text, "(insecure)"))
        cli_hint("--api-key-file FILE or MICA_API_KEY gives keys; --insecure does without.");
    else if (strstr(text, strerror(EADDRINUSE)) && strncmp(values->host, "unix:", 5) == 0)
        cli_hint("A program listens there, or it is no socket; if that is mica, mica ps shows "
                 "what it serves.");
    else if (strstr(text, strerror(EADDRINUSE)))
        cli_hint("--port N listens at another port, --port 0 at one that is free; if mica listens "
                 "there, mica ps shows what it serves.");
    else if (!values->certificate != !values->certificate_key)
        cli_hint("--tls-cert FILE --tls-key FILE: both in PEM.");
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    const serve_values *values = verb_values;
    char host[MAX_HOST];
    cli_keys keys = {0};
    if (cli_ranks_own() > 0) return follow(values, args, count);
    int port, code = find_place(values, host, &port);
    if (code == CLI_DONE) code = cli_keys_read(values->api_key, values->api_key_file, &keys);
    if (code != CLI_DONE) return code;
    cli_heap_set_up();
    cli_serve_raise_files();
    mica_server *server = NULL;
    mica_server_options options = server_options(values, &keys, host, port);
    mica_status status = mica_server_open(&options, &server);
    cli_keys_free(&keys);
    if (status != MICA_OK) return fail_to_open(status, values);
    atomic_store(&stopped, server);
    cli_serve_watch_signals(on_stop);
    code = serve(values, args, count, server);
    atomic_store(&stopped, NULL);
    mica_server_close(&server);
    return code;
}

static const cli_option server_table[] = {
    CLI_OPTION(TEXT, "host", serve_values, host, .placeholder = "ADDRESS", .initial = "127.0.0.1",
               .help =
                   "the address to listen at, also as ADDRESS:PORT, or unix:PATH for a socket of "
                   "the file system; one that other machines reach needs --api-key or --insecure"),
    CLI_OPTION(INT, "port", serve_values, port, .letter = 'p', .placeholder = "N",
               .initial = "8080", .max = 65535,
               .help = "the port to listen at; 0: one that is free"),
    CLI_OPTION(TEXT, "name", serve_values, name, .placeholder = "NAME",
               .help =
                   "what requests call the model, if it is one; the default is its folder's name"),
    CLI_OPTION(FILE, "tls-cert", serve_values, certificate, .placeholder = "FILE",
               .help = "a certificate in PEM: listen by TLS"),
    CLI_OPTION(FILE, "tls-key", serve_values, certificate_key, .placeholder = "FILE",
               .help = "the certificate's private key in PEM"),
    CLI_OPTION(FLAG, "log", serve_values, log,
               .help = "print a line for each request: path, status, time, number of tokens"),
    CLI_OPTION(FLAG, "vllm-metrics", serve_values, vllm_metrics,
               .help = "/metrics also has the names that vLLM made customary"),
    CLI_OPTION(TEXT, "kv-events", serve_values, kv_events, .placeholder = "ENDPOINT",
               .help = "publish what the caches keep of prompts, with their tokens, over ZeroMQ in "
                       "vLLM's format: tcp://*:5557 listens, tcp://router:5557 connects, "
                       "@tcp://127.0.0.1:5557 listens"),
    CLI_OPTION(TEXT, "kv-events-replay", serve_values, kv_events_replay, .placeholder = "ENDPOINT",
               .help = "listen there for readers of these events that have missed some"),
    CLI_OPTION(TEXT, "kv-events-topic", serve_values, kv_events_topic, .placeholder = "TEXT",
               .help = "their topic, in which {model} stands for the model's name: "
                       "kv@10.0.0.1@{model}; the default is none"),
    CLI_OPTION(TEXT, "kv-events-seed", serve_values, kv_events_seed, .placeholder = "TEXT",
               .help = "what their hashes of blocks begin with: vLLM's PYTHONHASHSEED, llm-d's "
                       "hashSeed; the default is none"),
};

static const cli_option access_table[] = {
    CLI_OPTION(TEXT, "api-key", serve_values, api_key, .placeholder = "KEY",
               .help = "requests must have this key; others see a command line: better in the "
                       "environment, or in a file"),
    CLI_OPTION(FILE, "api-key-file", serve_values, api_key_file, .placeholder = "FILE",
               .help = "requests must have one of the keys of FILE, one a line; lines that begin "
                       "with # are comments"),
    CLI_OPTION(FLAG, "insecure", serve_values, insecure, .no_variable = true,
               .help = "let other machines ask without a key"),
    CLI_OPTION(
        FLAG, "allow-downloads", serve_values, downloads, .no_variable = true,
        .help = "let requests download models to the Hugging Face cache, and remove them from it"),
    CLI_OPTION(TEXTS, "cors", serve_values, origins, .placeholder = "ORIGIN",
               .help = "let pages of ORIGIN, such as https://example.org, use the server; \"*\": "
                       "all pages; may be repeated"),
    CLI_OPTION(TEXTS, "allow-host", serve_values, hosts, .placeholder = "NAME",
               .help = "a name besides localhost and addresses that requests may have as their "
                       "Host; may be repeated; with a key any name may"),
    CLI_OPTION(INT, "max-body", serve_values, max_body, .placeholder = "BYTES",
               .initial = "10485760", .min = 1, .max = 1e10,
               .help = "the largest body of a request"),
    CLI_OPTION(INT, "max-connections", serve_values, max_connections, .placeholder = "N",
               .initial = "4096", .min = 1, .max = 1e6, .help = "number of connections"),
    CLI_OPTION(INT, "max-connections-per-host", serve_values, max_connections_per_host,
               .placeholder = "N", .initial = "0", .max = 1e6,
               .help = "number of connections from one address; 0: half of all"),
};

static const cli_option schedule_table[] = {
    CLI_OPTION(INT, "rows", serve_values, rows, .placeholder = "N", .initial = "16", .min = 1,
               .max = 256, .help = "number of answers computed together"),
    CLI_OPTION(INT, "queue", serve_values, queue, .placeholder = "N", .initial = "256", .min = 1,
               .max = 1e6, .help = "number of requests that may wait; more get 503"),
    CLI_OPTION(INT, "step-tokens", serve_values, step_tokens, .placeholder = "N", .initial = "0",
               .max = 1e6,
               .help = "tokens of prompts computed beside one token of each answer; 0: 512, fewer "
                       "if answers would wait for more than half a second"),
    CLI_OPTION(INT, "cache-memory", serve_values, cache_bytes, .placeholder = "MIB", .initial = "0",
               .max = 1e7, .help = "memory of all caches in MiB; 0: a share of what is free"),
    CLI_OPTION(INT, "draft-tokens", serve_values, draft_tokens, .placeholder = "N", .initial = "0",
               .max = 63,
               .help = "draft up to N tokens where a text repeats itself (speculative decoding)"),
    CLI_OPTION(FOLDER, "prefix-cache", serve_values, prefix_cache, .placeholder = "FOLDER",
               .help =
                   "keep what was read of prompts for the next start, in a file of this folder"),
    CLI_OPTION(REAL, "max-seconds", serve_values, max_seconds, .placeholder = "S", .initial = "0",
               .max = 1e6, .help = "limit of the time of each request; 0: none"),
    CLI_OPTION(INT, "max-tokens", serve_values, max_tokens, .placeholder = "N", .initial = "0",
               .max = INT32_MAX,
               .help = "limit of each answer's tokens; a request for more gets 400. 0: none, but a "
                       "request that names none gets at most as many as the context has"),
    CLI_OPTION(INT, "max-priority", serve_values, max_priority, .placeholder = "N", .initial = "0",
               .max = 100000,
               .help = "the highest priority that a request may ask for, 0 to 100000; 0: none "
                       "comes before others"),
};

static const cli_option models_table[] = {
    CLI_OPTION(REAL, "keep-alive", serve_values, keep_alive, .placeholder = "S", .initial = "300",
               .min = -1, .max = 1e9,
               .help = "how many seconds a model that was loaded for a request stays in memory "
                       "after its last one; -1: as long as there is room"),
    CLI_OPTION(INT, "max-models", serve_values, max_models, .placeholder = "N", .initial = "0",
               .max = 1000, .help = "number of models in memory; 0: as many as there is room for"),
    CLI_OPTION(
        INT, "model-memory", serve_values, model_memory, .placeholder = "MIB", .initial = "0",
        .max = 1e7,
        .help =
            "memory of all models in MiB, weights and caches; 0: three quarters of the device's"),
    CLI_OPTION(FLAG, "named-only", serve_values, named_only,
               .help = "serve the named models and no other"),
    CLI_OPTION(TEXTS, "adapter", serve_values, adapters, .letter = 'a',
               .placeholder = "NAME=FOLDER",
               .help = "requests for MODEL:NAME get the model with this LoRA adapter, made by "
                       "mlx-lm or PEFT; may be repeated. FOLDER alone: all named models have it"),
};

const cli_verb cli_verb_serve = {
    .synopsis = "[MODEL...]",
    .details =
        "Answers requests over HTTP by the APIs of OpenAI, Anthropic and ollama, until it is\n"
        "interrupted, and prints where; a browser shows a page to talk on there.\n"
        "Each MODEL is loaded at once and stays. Requests may name any other model that mica list\n"
        "shows, too: it is loaded when it is asked for. mica ps shows what is loaded, mica stop\n"
        "unloads.\n"
        "Ctrl-C, SIGTERM and SIGHUP let it end what it has begun; the second one ends it at once.\n"
        "docs/serve.md lists the endpoints and their fields.\n\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica serve\n"
                "  mica serve ~/models/gemma-3-1b-it-4bit --port 8000\n"
                "  mica serve gemma qwen --adapter pirate=~/adapters/pirate\n"
                "  MICA_API_KEY=... mica serve --host 0.0.0.0\n",
    .max_args = -1,
    .words = CLI_WORDS_FOLDERS,
    .ranks = CLI_RANKS_TOGETHER,
    .values_bytes = sizeof(serve_values),
    .groups = {{"Server", server_table, CLI_COUNT(server_table), 0},
               {"Access", access_table, CLI_COUNT(access_table), 0},
               {"Many requests", schedule_table, CLI_COUNT(schedule_table), 0},
               {"Models", models_table, CLI_COUNT(models_table), 0},
               {"Model", cli_model_options, CLI_MODEL_FOLDER, offsetof(serve_values, model)},
               {"Loading", cli_model_options + CLI_MODEL_ADAPTER,
                CLI_MODEL_CHAT - CLI_MODEL_ADAPTER, offsetof(serve_values, model)},
               {"Ranks", cli_model_ranks, CLI_MODEL_RANKS, offsetof(serve_values, model)}},
    .fields = cli_answer_options,
    .field_count = CLI_ANSWER_BATCH,
    .run = run,
};

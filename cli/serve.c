/* mica serve: answers requests over HTTP. */
#define _POSIX_C_SOURCE 200809L
#include "model.h"
#include "report.h"
#include "serve_keys.h"
#include "ui.h"
#include "verb.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    double max_seconds;
    bool log, vllm_metrics;
    cli_model_values model;
} serve_values;

/* The server that signals stop. */
static _Atomic(mica_server *) stopped;
static atomic_int signals;

static void on_stop(int signo) {
    int saved = errno;
    (void)signo;
    mica_server *server = atomic_load(&stopped);
    if (atomic_fetch_add(&signals, 1) > 1 || !server) _exit(CLI_INTERRUPTED);
    mica_server_stop(server);
    errno = saved;
}

/* The first signal drains the server, the second ends it, the third ends the program. */
static void watch_signals(mica_server *server) {
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    atomic_store(&stopped, server);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Each connection takes a file: as many as the system lets this process open. */
static void raise_files(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files); /* without, there are fewer connections */
}

/* The name that requests have for a model: what its folder is called, or the name of a hub's
 * repository. */
static const char *model_name(const serve_values *values, const char *word,
                              const mica_model *model) {
    mica_model_info info = {.struct_bytes = sizeof info};
    const char *given = values->model.model ? values->model.model : word;
    if (values->name) return values->name;
    mica_model_get_info(model, &info);
    if (given && !cli_is_model(given)) return given;
    size_t len = strlen(info.path);
    while (len > 1 && info.path[len - 1] == '/')
        len--;
    size_t begin = len;
    while (begin > 0 && info.path[begin - 1] != '/')
        begin--;
    static char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(len - begin), info.path + begin);
    return name;
}

static void log_line(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "mica: %s\n", line);
}

static mica_server_options server_options(const serve_values *values, const cli_keys *keys) {
    return (mica_server_options){
        .struct_bytes = sizeof(mica_server_options),
        .host = values->host,
        .port = (int)values->port,
        .insecure = values->insecure,
        .downloads = values->downloads,
        .vllm_metrics = values->vllm_metrics,
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

/* Where it listens, and what can be typed to see that. */
static void greet(const mica_server *server, const char *name) {
    const char *address = mica_server_address(server);
    bool file = strncmp(address, "unix:", 5) == 0;
    fprintf(stderr, "mica: serving %s at %s\n", name, address);
    fprintf(stderr,
            "  curl %s%s %s/v1/chat/completions -d '{\"model\": \"%s\", "
            "\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n",
            file ? "--unix-socket " : "", file ? address + 5 : "-s",
            file ? "http://localhost" : address, name);
}

/* Opens the model, while the server says that it is loading, and runs until a signal stops it. */
static int serve_model(const serve_values *values, const char *word, mica_server *server) {
    int code;
    mica_model *model = cli_model_open_default(&values->model, word, "serve", false, &code);
    if (!model) return code;
    const char *name = model_name(values, word, model);
    mica_serving_options serving = {
        .struct_bytes = sizeof serving,
        .rows = (int)values->rows,
        .step_tokens = values->step_tokens,
        .queue = (size_t)values->queue,
        .cache_bytes = (uint64_t)values->cache_bytes << 20,
        .max_seconds = values->max_seconds,
        .draft_tokens = (int)values->draft_tokens,
    };
    mica_status status = mica_server_add(server, name, model, &serving);
    mica_model_close(&model);
    if (status != MICA_OK) return cli_fail_status(status);
    greet(server, name);
    status = mica_server_run(server);
    if (status == MICA_ECANCELLED) return CLI_INTERRUPTED;
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

static int run(const void *verb_values, char **args, int count) {
    const serve_values *values = verb_values;
    cli_keys keys = {0};
    int code = cli_keys_read(values->api_key, values->api_key_file, &keys);
    if (code != CLI_DONE) return code;
    raise_files();
    mica_server *server = NULL;
    mica_server_options options = server_options(values, &keys);
    mica_status status = mica_server_open(&options, &server);
    cli_keys_free(&keys);
    if (status != MICA_OK) {
        code = cli_fail_status(status);
        if (strstr(mica_last_error(), "(insecure)"))
            cli_hint("--api-key-file FILE gives keys; --insecure does without.");
        return code;
    }
    watch_signals(server);
    code = serve_model(values, count > 0 ? args[0] : NULL, server);
    atomic_store(&stopped, NULL);
    mica_server_close(&server);
    return code;
}

static const cli_option server_table[] = {
    {.name = "host",
     .kind = CLI_TEXT,
     .placeholder = "ADDRESS",
     .initial = "127.0.0.1",
     .help = "the address to listen at, or unix:PATH for a socket of the file system; one that "
             "other machines reach needs --api-key or --insecure",
     .offset = offsetof(serve_values, host)},
    {.name = "port",
     .letter = 'p',
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "8080",
     .max = 65535,
     .help = "the port to listen at; 0: one that is free",
     .offset = offsetof(serve_values, port)},
    {.name = "name",
     .kind = CLI_TEXT,
     .placeholder = "NAME",
     .help = "what requests call the model; the default is its folder's name",
     .offset = offsetof(serve_values, name)},
    {.name = "tls-cert",
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "a certificate in PEM: listen by TLS",
     .offset = offsetof(serve_values, certificate)},
    {.name = "tls-key",
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "the certificate's private key in PEM",
     .offset = offsetof(serve_values, certificate_key)},
    {.name = "log",
     .kind = CLI_FLAG,
     .help = "print a line for each request: path, status, time, number of tokens",
     .offset = offsetof(serve_values, log)},
    {.name = "vllm-metrics",
     .kind = CLI_FLAG,
     .help = "/metrics also has the names that vLLM made customary",
     .offset = offsetof(serve_values, vllm_metrics)},
};

static const cli_option access_table[] = {
    {.name = "api-key",
     .kind = CLI_TEXT,
     .placeholder = "KEY",
     .help = "requests must have this key; others see a command line: better in the environment, "
             "or in a file",
     .offset = offsetof(serve_values, api_key)},
    {.name = "api-key-file",
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "requests must have one of the keys of FILE, one a line",
     .offset = offsetof(serve_values, api_key_file)},
    {.name = "insecure",
     .kind = CLI_FLAG,
     .help = "let other machines ask without a key",
     .offset = offsetof(serve_values, insecure),
     .no_variable = true},
    {.name = "allow-downloads",
     .kind = CLI_FLAG,
     .help = "let requests download models to the Hugging Face cache, and remove them from it",
     .offset = offsetof(serve_values, downloads),
     .no_variable = true},
    {.name = "cors",
     .kind = CLI_TEXTS,
     .placeholder = "ORIGIN",
     .help = "let pages of ORIGIN, such as https://example.org, use the server; \"*\": all pages; "
             "may be repeated",
     .offset = offsetof(serve_values, origins)},
    {.name = "allow-host",
     .kind = CLI_TEXTS,
     .placeholder = "NAME",
     .help = "a name besides localhost and addresses that requests may have as their Host; may be "
             "repeated; with a key any name may",
     .offset = offsetof(serve_values, hosts)},
    {.name = "max-body",
     .kind = CLI_INT,
     .placeholder = "BYTES",
     .initial = "10485760",
     .min = 1,
     .max = 1e10,
     .help = "the largest body of a request",
     .offset = offsetof(serve_values, max_body)},
    {.name = "max-connections",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "4096",
     .min = 1,
     .max = 1e6,
     .help = "number of connections",
     .offset = offsetof(serve_values, max_connections)},
    {.name = "max-connections-per-host",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 1e6,
     .help = "number of connections from one address; 0: half of all",
     .offset = offsetof(serve_values, max_connections_per_host)},
};

static const cli_option schedule_table[] = {
    {.name = "rows",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "16",
     .min = 1,
     .max = 256,
     .help = "number of answers computed together",
     .offset = offsetof(serve_values, rows)},
    {.name = "queue",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "256",
     .min = 1,
     .max = 1e6,
     .help = "number of requests that may wait; more get 503",
     .offset = offsetof(serve_values, queue)},
    {.name = "step-tokens",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "512",
     .min = 1,
     .max = 1e6,
     .help = "tokens of prompts computed beside one token of each answer",
     .offset = offsetof(serve_values, step_tokens)},
    {.name = "cache-memory",
     .kind = CLI_INT,
     .placeholder = "MIB",
     .initial = "0",
     .max = 1e7,
     .help = "memory of all caches in MiB; 0: a share of what is free",
     .offset = offsetof(serve_values, cache_bytes)},
    {.name = "draft-tokens",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 63,
     .help = "draft up to N tokens where a text repeats itself (speculative decoding)",
     .offset = offsetof(serve_values, draft_tokens)},
    {.name = "max-seconds",
     .kind = CLI_REAL,
     .placeholder = "S",
     .initial = "0",
     .max = 1e6,
     .help = "limit of the time of each request; 0: none",
     .offset = offsetof(serve_values, max_seconds)},
};

const cli_verb cli_verb_serve = {
    .synopsis = "[MODEL]",
    .details =
        "Answers requests by OpenAI's API over HTTP until it is interrupted, and prints where.\n"
        "Ctrl-C and SIGTERM let it end what it has begun; the second one ends it at once.\n"
        "docs/serve.md lists the endpoints and their fields.\n\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica serve\n"
                "  mica serve ~/models/gemma-3-1b-it-4bit --port 8000\n"
                "  MICA_API_KEY=... mica serve --host 0.0.0.0\n",
    .max_args = 1,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(serve_values),
    .groups = {{"Server", server_table, CLI_COUNT(server_table), 0},
               {"Access", access_table, CLI_COUNT(access_table), 0},
               {"Many requests", schedule_table, CLI_COUNT(schedule_table), 0},
               {"Model", cli_model_options, CLI_MODEL_CHAT, offsetof(serve_values, model)}},
    .run = run,
};

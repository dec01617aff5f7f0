#define _POSIX_C_SOURCE 200809L
#include "base/alloc.h"
#include "base/filemap.h"
#include "base/options.h"
#include "serve/common/chance.h"
#include "serve/connection.h"
#include "serve/jobs/batch_run.h"
#include "serve/jobs/state.h"
#include "serve/models/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* RESULT_SECONDS: how long a server that drains keeps the results of batches for who made them. */
enum { HEAD_BYTES = 48 << 10, OWN_FILES = 128, DRAIN_MS = 10, RESULT_SECONDS = 30, TAKE_MS = 1000 };

/* With other ranks: how long answers that were begun may take, and then their failures. */
enum { TEAM_MS = 400, LOST_MS = 400 };

/* Descriptors of a connection: the client's, and the front's pair. The library has let go of a
 * connection a little later than the front, which may have given it a new one by then. */
enum { CONNECTION_FILES = 3, LATE_CONNECTIONS = 64 };

/* ---- opening ---- */

static mica_status set_number(int *value, int initial, const char *name) {
    if (*value < 0) return mc_fail(MICA_EINVAL, "%s %d: want 1 or more", name, *value);
    if (!*value) *value = initial;
    return MICA_OK;
}

/* Sets what is zero, within what the process may open. */
static mica_status set_options(mica_server_options *options) {
    struct rlimit files;
    if (!options->max_body) options->max_body = 10u << 20;
    MC_TRY(set_number(&options->request_seconds, 60, "request_seconds"));
    MC_TRY(set_number(&options->comment_seconds, 10, "comment_seconds"));
    MC_TRY(set_number(&options->max_connections, 4096, "max_connections"));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        rlim_t own = OWN_FILES + CONNECTION_FILES, most = 1;
        if (files.rlim_cur > own) most = (files.rlim_cur - OWN_FILES) / CONNECTION_FILES;
        if ((rlim_t)options->max_connections > most) options->max_connections = (int)most;
    }
    MC_TRY(set_number(&options->max_connections_per_host, (options->max_connections + 1) / 2,
                      "max_connections_per_host"));
    if (!options->certificate != !options->certificate_key)
        return mc_fail(MICA_EINVAL, "TLS needs both a certificate and its key");
    if (options->certificate && (!*options->certificate || !*options->certificate_key))
        return mc_fail(MICA_EINVAL, "TLS: the name of a file is empty");
    return MICA_OK;
}

static mica_status check_address(const mica_server *server, const mica_server_options *options) {
    if (server->listening.loopback || options->api_key_count || options->insecure) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "%s is reached by other machines: give a key that requests must have, or insist "
                   "that none is needed (insecure)",
                   server->listening.address);
}

/* What TLS reads its certificate from. */
typedef struct tls {
    mc_filemap certificate, key;
} tls;

static void free_tls(tls *files) {
    mc_filemap_close(&files->certificate);
    mc_filemap_close(&files->key);
}

/* An empty file is refused here: it would be no file to the library. */
static mica_status read_pem(const char *path, const char *what, mc_filemap *file) {
    MC_TRY(mc_filemap_read(path, MC_FILE_CERTIFICATE, 1, NULL, file));
    if (file->size > 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s is empty: want %s in PEM", path, what);
}

static mica_status read_tls(const mica_server_options *options, tls *files) {
    if (!options->certificate) return MICA_OK;
    if (mc_mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return mc_fail(MICA_EUNSUPPORTED, "this libmicrohttpd was built without TLS");
    MC_TRY(read_pem(options->certificate, "a certificate", &files->certificate));
    return read_pem(options->certificate_key, "its private key", &files->key);
}

static void add_connection(void *user, int fd, const struct sockaddr *address, unsigned bytes) {
    mica_server *server = user;
    if (mc_mhd.add_connection(server->daemon, (MHD_socket)fd, address, (socklen_t)bytes) == MHD_YES)
        atomic_fetch_add(&server->given, 1u);
}

static mica_status start_front(mica_server *server) {
    const mc_front_options options = {.listening = server->listening.fd,
                                      .max_connections = server->options.max_connections,
                                      .max_connections_per_host =
                                          server->options.max_connections_per_host,
                                      .add = add_connection,
                                      .user = server};
    mica_status status = mc_front_open(&options, &server->front);
    if (status == MICA_OK) return MICA_OK;
    mc_mhd.stop_daemon(server->daemon);
    server->daemon = NULL;
    return status;
}

static mica_status start_daemon(mica_server *server, const tls *files) {
    const mica_server_options *options = &server->options;
    unsigned most = (unsigned)options->max_connections + LATE_CONNECTIONS, most_per_host = 0;
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem items[4] = {{MHD_OPTION_END, 0, NULL}};
    if (options->certificate) {
        most = (unsigned)options->max_connections;
        most_per_host = (unsigned)options->max_connections_per_host;
        flags |= MHD_USE_TLS;
        items[0] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)files->certificate.data};
        items[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)files->key.data};
        items[2] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, server->listening.fd, NULL};
        items[3] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    } else {
        flags |= MHD_USE_NO_LISTEN_SOCKET; /* the front gives it connections, and counts them */
    }
    server->daemon = mc_mhd.start_daemon(
        flags, 0, NULL, NULL, mc_connection_handle, server, MHD_OPTION_NOTIFY_COMPLETED,
        mc_connection_done, server, MHD_OPTION_NOTIFY_CONNECTION, mc_connection_notify, server,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_LIMIT, most,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, most_per_host, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)MC_IDLE_SECONDS, MHD_OPTION_UNESCAPE_CALLBACK, mc_connection_unescape, NULL,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
    if (server->daemon) return options->certificate ? MICA_OK : start_front(server);
    if (options->certificate)
        return mc_fail(
            MICA_EFORMAT,
            "%s and %s: not a certificate and its private key, in PEM without a password",
            options->certificate, options->certificate_key);
    return mc_fail(MICA_EIO, "libmicrohttpd does not start at %s", server->listening.address);
}

static mica_status open_pipe(mica_server *server) {
    if (pipe(server->stop_pipe) != 0) return mc_fail_errno(errno, "cannot open a pipe");
    for (int i = 0; i < 2; i++) {
        fcntl(server->stop_pipe[i], F_SETFD, FD_CLOEXEC);
        fcntl(server->stop_pipe[i], F_SETFL, O_NONBLOCK);
    }
    return MICA_OK;
}

/* Ends the threads that compute; no connection is left. */
static void close_workers(mica_server *server) {
    mc_batch_queue_close(&server->batches);
    mc_handlers_close(&server->handlers);
    mc_evaluator_close(&server->evaluator); /* the others close what it has */
}

/* What is open is closed by what was opened before it. */
static mica_status open_workers(mica_server *server) {
    MC_TRY(mc_evaluator_open(&server->evaluator));
    mica_status status = mc_handlers_open(&server->handlers);
    if (status == MICA_OK) {
        status = mc_batch_queue_open(&server->batches, server, mc_batch_run);
        if (status == MICA_OK) return MICA_OK;
        mc_handlers_close(&server->handlers);
    }
    mc_evaluator_close(&server->evaluator);
    return status;
}

static void tick(void *models) {
    mc_models_refuse_late(models);
}

static mica_status open_threads(mica_server *server, const tls *files) {
    const mica_server_options *options = &server->options;
    MC_TRY(open_workers(server));
    mica_status status = mc_watch_open(&server->watch, options->request_seconds,
                                       options->comment_seconds, tick, &server->models);
    if (status == MICA_OK) {
        status = start_daemon(server, files);
        if (status == MICA_OK) return MICA_OK;
        mc_watch_close(&server->watch);
    }
    close_workers(server);
    return status;
}

static mica_status open_events(mica_server *server, const mica_server_options *given) {
    const mc_kv_publisher_options options = {given->kv_events, given->kv_events_replay,
                                             given->kv_events_topic, given->kv_events_seed};
    if (given->kv_events) return mc_kv_publisher_open(&options, &server->models.events);
    if (!given->kv_events_replay && !given->kv_events_topic && !given->kv_events_seed)
        return MICA_OK;
    return mc_fail(MICA_EINVAL, "KV events: there is no endpoint to publish them at (kv_events)");
}

static mica_status open_server(mica_server *server, const mica_server_options *given) {
    tls files = {{0}, {0}};
    server->options = *given;
    MC_TRY(set_options(&server->options));
    MC_TRY(mc_listen_open(given->host, given->port, &server->listening));
    MC_TRY(check_address(server, given));
    MC_TRY(mc_guard_open(&server->guard, given, server->listening.port == 0));
    MC_TRY(open_events(server, given));
    MC_TRY(open_pipe(server));
    const char *scheme = given->certificate ? "https://" : "http://";
    snprintf(server->address, sizeof server->address, "%s%s", server->listening.port ? scheme : "",
             server->listening.address);
    mica_status status = read_tls(given, &files);
    if (status == MICA_OK) status = open_threads(server, &files);
    free_tls(&files);
    return status;
}

/* Frees what open_server had opened, but threads. */
static void free_server(mica_server *server) {
    bool taken = server->daemon && server->options.certificate; /* the library has closed it */
    if (!taken && server->listening.fd >= 0) close(server->listening.fd);
    if (server->listening.fd >= 0) mc_listen_forget(&server->listening);
    for (int i = 0; i < 2; i++)
        if (server->stop_pipe[i] >= 0) close(server->stop_pipe[i]);
    mc_guard_close(&server->guard);
    mc_models_deinit(&server->models);
    mc_kv_publisher_close(&server->models.events);
    mc_response_store_deinit(&server->responses);
    if (server->files.shares) mc_file_store_deinit(&server->files);
    mc_free(server);
}

/* A rank is gone: what is under way fails, and the server ends. */
static void on_broken(void *server) {
    mica_server_stop(server);
}

mica_status mica_server_open(const mica_server_options *options, mica_server **out) {
    if (!out) return mc_fail(MICA_EINVAL, "mica_server_open: server is NULL");
    *out = NULL;
    mica_server_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_server_options, kv_events_seed, &given, options));
    MC_TRY(mc_mhd_load());
    mica_server *server = mc_calloc(1, sizeof *server);
    if (!server) return mc_fail_nomem("a server");
    server->listening.fd = server->stop_pipe[0] = server->stop_pipe[1] = -1;
    mc_models_init(&server->models, &server->handlers);
    mc_response_store_init(&server->responses);
    server->can_seal = mc_chance_bytes(server->seal_key, sizeof server->seal_key);
    mica_status status = mc_file_store_init(&server->files, given.api_key_count);
    if (status == MICA_OK) status = open_server(server, &given);
    if (status == MICA_OK)
        *out = server;
    else
        free_server(server);
    return status;
}

mica_status mica_server_add(mica_server *server, const char *name, const mica_model *model,
                            const mica_serving_options *options) {
    mica_serving_options given;
    if (!server) return mc_fail(MICA_EINVAL, "mica_server_add: server is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_serving_options, max_tokens, &given, options));
    return mc_models_add(&server->models, name, model, &given);
}

mica_status mica_server_load(mica_server *server, const mica_loading_options *options) {
    mica_loading_options given;
    if (!server) return mc_fail(MICA_EINVAL, "mica_server_load: server is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_loading_options, memory_bytes, &given, options));
    return mc_models_load(&server->models, &given, on_broken, server);
}

const char *mica_server_address(const mica_server *server) {
    return server ? server->address : "";
}

/* ---- running and ending ---- */

void mica_server_under_way(const mica_server *server, int *requests, int *batches) {
    if (requests) *requests = server ? atomic_load(&server->under_way) : 0;
    if (batches) *batches = server ? atomic_load(&server->batches.unfinished) : 0;
}

static bool is_under_way(mica_server *server) {
    int requests, batches;
    mica_server_under_way(server, &requests, &batches);
    return requests > 0 || batches > 0 || mc_file_store_has_news(&server->files, RESULT_SECONDS);
}

/* Waits until nothing is under way, up to so long. false: something is */
static bool wait_for_end(mica_server *server, int ms) {
    for (; ms > 0 && is_under_way(server); ms -= DRAIN_MS)
        poll(NULL, 0, DRAIN_MS);
    return !is_under_way(server);
}

/* With other ranks there is no time to answer what was begun: who has started them kills them one
 * second after it has told them to end, and the ranks of this one may have ended already. */
static mica_status drain_team(mica_server *server) {
    mc_team *team = server->models.team;
    mica_status status = mc_team_check(team);
    if (status == MICA_OK && wait_for_end(server, TEAM_MS)) return MICA_OK;
    if (status == MICA_OK)
        status =
            mc_fail(MICA_ECANCELLED, "the server was stopped before all requests were answered");
    char error[512];
    snprintf(error, sizeof error, "%s", mica_last_error());
    mc_team_give_up(team);
    (void)wait_for_end(server, LOST_MS);
    return mc_fail(status, "%s", error);
}

mica_status mica_server_run(mica_server *server) {
    if (!server) return mc_fail(MICA_EINVAL, "mica_server_run: server is NULL");
    struct pollfd stop = {.fd = server->stop_pipe[0], .events = POLLIN};
    while (!atomic_load(&server->stops))
        if (poll(&stop, 1, -1) < 0 && errno != EINTR)
            return mc_fail_errno(errno, "cannot wait for the server's end");
    atomic_store(&server->draining, true);
    if (server->models.team) return drain_team(server);
    while (atomic_load(&server->stops) < 2 && is_under_way(server))
        poll(NULL, 0, DRAIN_MS);
    if (atomic_load(&server->stops) < 2) return MICA_OK;
    return mc_fail(MICA_ECANCELLED, "the server was stopped before all requests were answered");
}

void mica_server_stop(mica_server *server) {
    if (!server) return;
    int error = errno;
    atomic_fetch_add(&server->stops, 1);
    ssize_t written = write(server->stop_pipe[1], "", 1); /* a full pipe wakes as well */
    (void)written;
    errno = error;
}

/* What libmicrohttpd was given waits for its thread, which at its end (up to 0.9.75) looks at what
 * is left without the lock that it was added with: nothing may be. One that it cannot serve it
 * closes without a word, so the wait has a limit. */
static void wait_for_library(mica_server *server) {
    for (int ms = 0; ms < TAKE_MS && atomic_load(&server->taken) < atomic_load(&server->given);
         ms++)
        poll(NULL, 0, 1);
}

void mica_server_close(mica_server **handle) {
    if (!handle || !*handle) return;
    mica_server *server = *handle;
    *handle = NULL;
    atomic_store(&server->draining, true);
    atomic_store(&server->closing, true);
    mc_watch_cut_all(&server->watch); /* the library may not be stopped while one is suspended */
    mc_front_refuse(server->front);
    wait_for_library(server);
    mc_mhd.stop_daemon(server->daemon);
    mc_front_close(&server->front);
    mc_loader_end(&server->models);
    close_workers(server);
    mc_watch_close(&server->watch);
    free_server(server);
}

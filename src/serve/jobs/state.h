/* What a server is made of. Endpoints read it; serve/server.c opens and closes it. */
#ifndef SERVE_JOBS_STATE_H
#define SERVE_JOBS_STATE_H

#include "hub/seal.h"
#include "serve/common/batch_queue.h"
#include "serve/common/file_store.h"
#include "serve/common/response_store.h"
#include "serve/http/exchange.h"
#include "serve/http/front.h"
#include "serve/http/guard.h"
#include "serve/http/handlers.h"
#include "serve/http/listen.h"
#include "serve/http/watch.h"
#include "serve/jobs/evaluation.h"
#include "serve/models/models.h"

#include <stdatomic.h>

/* Requests since the server was opened, by how they were answered. */
typedef struct mc_server_counts {
    atomic_uint_fast64_t requests; /* all */
    atomic_uint_fast64_t ok, client_errors, server_errors, dropped;
} mc_server_counts;

struct mica_server {
    mica_server_options options; /* numbers only, all set; strings are in the guard */
    char address[300];
    mc_listen listening;
    mc_guard guard;
    mc_models models;
    mc_watch watch;
    mc_handlers handlers;
    mc_evaluator evaluator;
    mc_response_store responses;
    uint8_t seal_key[MC_SEAL_KEY]; /* of what clients keep */
    bool can_seal;                 /* it was drawn */
    mc_file_store files;
    mc_batch_queue batches;
    void *daemon;    /* struct MHD_Daemon */
    mc_front *front; /* NULL: by TLS the library itself talks to clients */
    mc_server_counts counts;
    atomic_uint_fast64_t body_bytes; /* of all bodies that are there */
    atomic_int under_way;            /* requests whose head was accepted, and that are not done */
    atomic_int stops;                /* calls of mica_server_stop */
    atomic_bool draining, closing;
    atomic_uint given, taken; /* connections that the library got, that its thread has */
    int stop_pipe[2];         /* a byte for each call of mica_server_stop */
};

#endif

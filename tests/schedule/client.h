/* A client of a schedule: it collects what its request's callbacks give it. Threads: the functions
 * that wait belong to the test's own thread. */
#ifndef SCHEDULE_CLIENT_H
#define SCHEDULE_CLIENT_H

#include "support/support.h"

#include "base/buffer.h"
#include "schedule/schedule.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CLIENT_CHOICES = 4 };

/* What a choice gave. */
typedef struct client_choice {
    mc_buffer ids, text, logprobs; /* int32, of tokens; UTF-8; float */
    size_t prompt;                 /* tokens of the prompt that were echoed */
    bool lost;                     /* there was no memory to keep them */
    size_t ends;                   /* calls of `end` */
    mica_status status;
    mica_finish finish;
    bool timed_out;
    char error[256];
    mica_metrics metrics;
    double queue_seconds, first_token_seconds, total_seconds;
    unsigned order; /* of all ends of a test program, from 1 */
} client_choice;

typedef struct client {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    client_choice choices[CLIENT_CHOICES];
    size_t ended;                /* choices */
    size_t prefills;             /* calls of prefill */
    int64_t done, total, cached; /* of the last one */
    size_t stop_at;              /* tokens after which `token` says false; 0: never */
    uint64_t fail_at;            /* the one allocation behind the first token that fails; 0: none */
    bool closed; /* the test has closed the request: nothing may be called any more */
    size_t late; /* callbacks after that */
    mc_request *request;
} client;

void client_init(client *c);
void client_deinit(client *c); /* closes the request */

/* Submits a request; options->user and its callbacks are the client's. */
mica_status client_submit(client *c, mc_schedule *schedule, mc_request_options options);
/* Waits until n choices have ended, or a choice has n tokens. */
void client_wait_ends(client *c, size_t n);
void client_wait_tokens(client *c, size_t choice, size_t n);
void client_close(client *c);
/* Waits until a schedule has no request. */
void client_wait_idle(mc_schedule *schedule);
size_t client_tokens(client *c, size_t choice); /* as of now */

/* A model's folder of models/, with options; ends the test on an error. */
mica_model *open_model(const char *name, const mica_model_options *options);

/* What mica_generate_ids gives alone in a session of its own. */
client_choice generate_alone(const mica_model *model, const int32_t *ids, size_t n,
                             const mica_generate_options *options);
void choice_free(client_choice *choice);
/* Ends the test unless both gave the same, to the bit. */
void choice_compare(const client_choice *got, const client_choice *want, const char *what);

/* A constraint that allows every third token, and after n of them the end, nothing else; or fails
 * there. It counts those that are open. */
mc_constraint *open_thirds(atomic_int *open, size_t n);
mc_constraint *open_broken(atomic_int *open, size_t n);

/* Keeps a schedule's thread busy until it is let go, so that a queue forms: in the last callback of
 * a request whose time was over before it began. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, open;
    mc_request *request;
} gate;

void gate_shut(gate *g, mc_schedule *schedule);
void gate_open(gate *g);

#endif

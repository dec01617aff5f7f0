/* Batches: files of requests that a server answers by itself, and writes the answers to files.
 *
 * A thread of the server takes them in order, those of different keys in turn. It answers several
 * requests of a batch at once, by the handlers that answer clients, after everything that clients
 * ask (mc_exchange.background). The server holds MC_BATCHES of each key; the oldest that has ended
 * is forgotten for a new one. They end with the server. A batch is there only for requests that
 * have the same of the server's keys as the one that made it.
 *
 * Threads: any. */
#ifndef SERVE_COMMON_BATCH_QUEUE_H
#define SERVE_COMMON_BATCH_QUEUE_H

#include "base/buffer.h"
#include "serve/common/chance.h"
#include "serve/common/failure.h"
#include "serve/common/file_store.h"
#include "serve/common/put.h"

#include <mica/serve.h>

#include <stdatomic.h>

enum { MC_BATCHES = 256, MC_BATCH_LINES = 50000, MC_BATCH_HOURS = 24 };

typedef enum mc_batch_state {
    MC_BATCH_VALIDATING,
    MC_BATCH_FAILED,
    MC_BATCH_IN_PROGRESS,
    MC_BATCH_FINALIZING,
    MC_BATCH_COMPLETED,
    MC_BATCH_EXPIRED,
    MC_BATCH_CANCELLING,
    MC_BATCH_CANCELLED,
    MC_BATCH_STATES
} mc_batch_state;

/* All but `next` and `busy` is guarded by the queue's lock; the first part never changes. */
typedef struct mc_queued_batch {
    struct mc_queued_batch *next;
    char id[MC_NAME_BYTES], input[MC_NAME_BYTES]; /* input: the file's */
    size_t key;                                   /* whose it is (mc_exchange.key) */
    const char *endpoint;                         /* "/v1/embeddings" */
    mc_buffer metadata;                           /* JSON; empty: none */

    atomic_int *unfinished; /* of the queue */
    mc_batch_state state;
    int64_t since[MC_BATCH_STATES]; /* seconds since 1970 when it got into a state; 0: never */
    size_t total, completed, failed;
    char output[MC_NAME_BYTES], errors[MC_NAME_BYTES]; /* files; "": none */
    mc_buffer problems;                                /* of the input: elements of JSON */
    bool busy;                                         /* the thread has it */
} mc_queued_batch;

typedef struct mc_batch_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    mica_server *server;
    void (*run)(struct mc_batch_queue *queue, mc_queued_batch *batch);
    mc_queued_batch *first, **last; /* oldest first */
    size_t key;                     /* of the one that was begun last */
    atomic_int unfinished;          /* of them */
    bool ending;
} mc_batch_queue;

/* run: does the work of a batch, until it has ended or the queue is ending. Its state says which.
 * errors  MICA_ENOMEM. After an error there is nothing to close. */
mica_status mc_batch_queue_open(mc_batch_queue *queue, mica_server *server,
                                void (*run)(mc_batch_queue *queue, mc_queued_batch *batch));
void mc_batch_queue_close(mc_batch_queue *queue); /* ends what is under way */

/* Called with the queue's lock held. */
void mc_batch_set_state(mc_queued_batch *batch, mc_batch_state state);

/* Puts a batch at the end and writes its object to `put`. metadata: taken over.
 * returns  false: *failure says why */
bool mc_batch_queue_add(mc_batch_queue *queue, size_t key, const char *input, const char *endpoint,
                        mc_buffer *metadata, mc_put *put, mc_failure *failure);

/* Write the object of a batch. false: there is none. */
bool mc_batch_queue_put(mc_batch_queue *queue, size_t key, mc_str id, mc_put *put);
/* First asks it to end. *ended: it has already. */
bool mc_batch_queue_cancel(mc_batch_queue *queue, size_t key, mc_str id, mc_put *put, bool *ended);

/* Writes up to `limit` of the key's before the one called `after` (ptr NULL: all), the newest
 * first, as members of a list's object. false: there is no such batch. */
bool mc_batch_queue_list(mc_batch_queue *queue, size_t key, mc_str after, size_t limit,
                         mc_put *put);

#endif

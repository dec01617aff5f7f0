/* Computations of requests that are no answers: embeddings, scores, classes.
 *
 * One thread of the server runs them one after another, beside the threads that compute answers:
 * both share the workers of the device, so that neither stalls the other. An endpoint fills in an
 * evaluation at the beginning of a struct of its own:
 *
 *     run     in that thread: computes, and writes http->out. It gives `cancel` to all that is
 *             long, and mc_evaluation_progress to what reports progress
 *     close   frees the struct; in a thread that may block, after run has returned
 *
 * One that comes before an answer, which the scheduler computes, has two more:
 *
 *     follow  in that thread, once run has returned true: begins the answer, instead of http->out
 *     hangup  the client is gone; in any thread, also before and after follow. Must not block
 *
 * Those of clients go before those of batches (mc_exchange.background), also between two inputs, or
 * parts of an input, of one that runs.
 *
 * When the client is gone, or max_seconds of the model are over, `cancel` is set. Threads: any. */
#ifndef SERVE_JOBS_EVALUATION_H
#define SERVE_JOBS_EVALUATION_H

#include "serve/http/exchange.h"
#include "serve/models/models.h"

typedef struct mc_evaluation mc_evaluation;

typedef enum mc_evaluation_kind {
    MC_EVALUATION_EMBED,
    MC_EVALUATION_SCORE,
    MC_EVALUATION_RERANK,
    MC_EVALUATION_CLASSIFY,
    MC_EVALUATION_KINDS
} mc_evaluation_kind;

/* How one has ended. */
typedef enum mc_evaluation_end {
    MC_EVALUATION_DONE,
    MC_EVALUATION_CANCELLED,
    MC_EVALUATION_TIMED_OUT,
    MC_EVALUATION_FAILED,
    MC_EVALUATION_ENDS
} mc_evaluation_end;

typedef struct mc_evaluation_ops {
    mc_evaluation_kind kind;
    bool (*run)(mc_evaluation *evaluation); /* false: http->failure says why */
    void (*close)(mc_evaluation *evaluation);
    bool (*follow)(mc_evaluation *evaluation); /* NULL: http->out is the answer. false: as run */
    void (*hangup)(mc_evaluation *evaluation); /* NULL: `cancel` says enough */
} mc_evaluation_ops;

struct mc_evaluation {
    const mc_evaluation_ops *ops;
    mc_exchange *http;
    mc_served *served;
    mica_cancel cancel;

    /* Private. */
    mc_evaluation *next;
    struct mc_evaluator *evaluator;
    uint64_t started_us, deadline_us; /* deadline_us 0: none */
    uint64_t others_us;               /* time of others that were computed meanwhile */
    bool waits, runs;                 /* guarded by the lock of the evaluator */
};

enum { MC_EVALUATIONS = 256 }; /* that may wait */

/* Gauges, and counters since the server was opened. */
typedef struct mc_evaluation_stats {
    size_t waiting, running;
    uint64_t refused; /* too many waited */
    struct {
        uint64_t ended[MC_EVALUATION_ENDS];
        uint64_t tokens; /* of the texts of those that are done */
        double seconds;  /* of computing */
    } kinds[MC_EVALUATION_KINDS];
} mc_evaluation_stats;

/* The thread, of a server. */
typedef struct mc_evaluator {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    mc_evaluation *first;
    mc_evaluation_stats stats;
    bool ending;
} mc_evaluator;

/* errors  MICA_ENOMEM. After an error there is nothing to close. */
mica_status mc_evaluator_open(mc_evaluator *evaluator);
void mc_evaluator_close(mc_evaluator *evaluator); /* all evaluations are closed */

void mc_evaluator_get_stats(mc_evaluator *evaluator, mc_evaluation_stats *stats);

/* Has it run. From now on it is closed with its exchange, whatever happens; it takes the place of
 * what was attached to that.
 *  returns  false: http->failure says why, and it does not run */
bool mc_evaluation_start(mc_evaluation *evaluation, mc_evaluator *evaluator);

/* A mica_progress whose user is an evaluation, between two of its passes: ends it when its time is
 * over; a background one lets those of clients run first. */
void mc_evaluation_progress(void *evaluation, uint64_t done, uint64_t total);

/* Sets http->failure from a failed computation: that its time is over, if that is why. Returns
 * false. */
bool mc_evaluation_fail(mc_evaluation *evaluation, mica_status status, const char *param);

#endif

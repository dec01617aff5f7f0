/* A request: a copy of its options, how far its choices are, and its callbacks.
 *
 * Threads: callbacks run under the request's lock, so that none runs once it is closed. The lock is
 * recursive: a callback may close its own request. The members that say so belong to the
 * schedule. */
#ifndef SCHEDULE_REQUEST_H
#define SCHEDULE_REQUEST_H

#include "base/arena.h"
#include "schedule/schedule.h"
#include "session/session.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct mc_choice {
    bool ended;
    bool stopped;            /* its callback wanted no more, and the request was not cancelled */
    uint64_t started, first; /* when it got its row and its first token, mc_now_us; 0: not yet */
    uint64_t latest;         /* when it got its latest token */
    int64_t generated;       /* tokens handed out */
} mc_choice;

struct mc_request {
    atomic_uint count;        /* its handle, and the schedule until all choices have left it */
    mc_schedule *schedule;    /* held */
    mc_arena arena;           /* of the copies */
    mc_request_options given; /* points to the copies */
    mica_generate_options generate; /* of choice 0 */
    mc_constraint *
        *constraints;           /* [given.choices], those that streams have not taken; NULL: none */
    uint64_t arrived, deadline; /* mc_now_us; deadline 0: none */
    atomic_bool cancelled;
    pthread_mutex_t lock; /* of what follows */
    bool closed;
    mc_choice *choices; /* [given.choices] */

    /* Of the thread: */
    mc_session *source; /* has the prompt, for the other choices; NULL: none */
    unsigned overtaken; /* requests that went first and came later, or whose priority is higher */

    /* Guarded by the schedule's lock: */
    mc_request *next; /* in the queue */
    size_t entered;   /* choices that got a row, or ended without one */
    bool read;        /* the first choice has read the prompt, or has ended: others may follow */
    size_t left;      /* choices that the schedule has not ended yet */
};

/* Of the schedule that a request holds. */
mc_schedule *mc_schedule_retain(mc_schedule *schedule);
void mc_schedule_release(mc_schedule *schedule);

/* Counts a choice's seconds: which of the schedule's statistics. */
typedef enum mc_time { MC_QUEUE_TIME, MC_FIRST_TOKEN_TIME, MC_TOKEN_TIME, MC_TOTAL_TIME } mc_time;
void mc_schedule_count_seconds(mc_schedule *schedule, mc_time which, uint64_t us);

/* Copies the options, which are checked, and takes the constraints. errors  MICA_ENOMEM; the
 * constraints are not taken then */
mica_status mc_request_new(mc_schedule *schedule, const mc_request_options *options,
                           mc_request **request);
/* Gives back one of its two holders' share; takes no NULL. */
void mc_request_release(mc_request *request);

/* Whether it need not go on: cancelled, closed or out of time; *timed_out says whether the last. */
bool mc_request_is_over(mc_request *request, uint64_t now, bool *timed_out);

/* Its priority, which grows with the requests that overtake it: all are computed some time. */
int64_t mc_request_priority(const mc_request *request);

/* A choice gets its row. */
void mc_request_start(mc_request *request, size_t choice);

/* Call the callbacks, unless the request is closed. mc_request_give: false where the choice is to
 * be cancelled. */
void mc_request_tell(mc_request *request, int64_t done, int64_t total, int64_t cached);
bool mc_request_give(mc_request *request, size_t choice, const mica_token *token);
/* end: all but the seconds, which are set here. */
void mc_request_end(mc_request *request, size_t choice, mc_choice_end *end);

#endif

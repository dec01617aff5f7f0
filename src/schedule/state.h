/* The state of a schedule, for the files of this room.
 *
 * open.c has what callers call, prefixes.c the file of prefixes, thread.c the queue and the thread;
 * rows.c computes for models of this process, turns.c for others. */
#ifndef SCHEDULE_STATE_H
#define SCHEDULE_STATE_H

#include "schedule/lane.h"
#include "schedule/request.h"
#include "session/answer.h"
#include "session/stream.h"
#include "task/batch.h"

/* A row: a choice that is being computed. */
typedef struct mc_row {
    mc_request *request; /* NULL: free */
    size_t choice;
    uint64_t number;     /* rows that were taken before this one */
    mc_session *session; /* NULL: never used */
    /* Another row whose prompt begins with the same `common` tokens, for which this one waits. */
    const struct mc_row *leader; /* NULL: none */
    uint64_t leaders_number;
    int64_t common;
    mc_stream *stream; /* NULL: it has just been taken */
    int64_t left;      /* tokens of the text that are not read */
    bool paused;       /* it has no blocks */
    bool counted;      /* its prompt was read once */
    uint64_t decode_us;
} mc_row;

/* Of the thread alone. */
typedef struct mc_rows {
    mc_session_model model; /* the schedule's, with a pool */
    mc_batch batch;
    mc_mask_worker *masks;
    /* [n], twice options.rows: as many as may compute, and as many that are paused */
    mc_row *rows;
    int n;
    uint64_t taken, pauses;
    double read_us; /* time of a prompt's token: a moving average; 0: not known */
} mc_rows;

struct mc_schedule {
    atomic_uint count;             /* its handle, and requests */
    mc_lane *lane;                 /* of a schedule beside the first one; NULL: it is that */
    mc_schedule *beside;           /* of the next lane; NULL: there is none */
    const mica_model *model;       /* held while the thread lives */
    const mc_session_model *local; /* NULL: another engine computes */
    mc_schedule_options options;   /* without zeros */
    bool adapts;                   /* step_tokens follows the time that reading takes */
    mc_answer_model said;          /* what prompts are checked against */
    int64_t fit;                   /* tokens of an answer that the budget is enough for */
    char *prefix_file;             /* of options.prefix_folder; NULL: none */
    pthread_t thread;
    bool started;     /* the thread */
    atomic_bool stop; /* set under the lock: all ends */
    bool cut_off;     /* of the thread: a request ends for that */
    mc_rows rows;
    mica_session *session; /* of turns.c; NULL: not opened yet */

    pthread_mutex_t lock;       /* of what follows */
    pthread_cond_t changed;     /* any of it */
    mc_request *first, *last;   /* the queue, in order of arrival */
    mica_stream *turn;          /* that turns.c computes; NULL: none */
    const mc_request *turns_of; /* its request */
    uint64_t choice_us;         /* time of a choice in its row: a moving average */
    mc_schedule_stats stats;
};

void *mc_schedule_work(void *schedule); /* the thread */

/* ---- for the thread: rows.c and turns.c ---- */

/* Takes the choice that is next, if there are blocks for it. false: there is none. */
bool mc_schedule_take(mc_schedule *s, mc_request **request, size_t *choice);

/* The priority of that choice; INT64_MIN: there is none. */
int64_t mc_schedule_next_priority(mc_schedule *s);

/* Ends a choice that was taken, with the thread's error text if `status` is an error. */
void mc_schedule_end(mc_schedule *s, mc_request *request, size_t choice, mica_status status,
                     mica_finish finish, const mica_metrics *metrics);

/* Whether a request must not go on, now. */
bool mc_schedule_is_over(mc_schedule *s, mc_request *request);

/* Ends the requests that wait in vain: between two steps. */
void mc_schedule_sweep(mc_schedule *s);

/* Counts a step of n rows, and tokens of a prompt. */
void mc_schedule_count_step(mc_schedule *s, size_t n);
void mc_schedule_count_prompt(mc_schedule *s, int64_t tokens, int64_t cached);

/* Says that other choices of a request may follow the first. */
void mc_schedule_set_read(mc_schedule *s, mc_request *request);

void mc_schedule_count_swaps(mc_schedule *s, uint64_t swaps, uint64_t swapped_bytes);
void mc_schedule_count_cache(mc_schedule *s, uint64_t used_bytes, uint64_t kept_bytes,
                             size_t paused, uint64_t pauses);
void mc_schedule_count_masks(mc_schedule *s, mc_mask_times times);

/* Opens and closes the rows. After an error they must be closed, too. errors  MICA_ENOMEM */
mica_status mc_rows_open(mc_schedule *s);
void mc_rows_close(mc_schedule *s);

/* A quarter of the device's memory, three quarters of what is free of it, or what all rows can use,
 * whichever is least. Rows can use a quarter more than their tokens, for blocks that are not full.
 */
uint64_t mc_rows_budget(const mica_model *model, const mc_session_model *local, int rows);

/* Sets the budget of the caches of one of `lanes`, 0 for the default, to the least that any rank of
 * a team has. errors  MICA_EDEVICE; MICA_ENOMEM */
mica_status mc_rows_agree(mc_team *team, const mica_model *model, const mc_session_model *local,
                          int rows, int lanes, uint64_t *budget);

/* Opens the pool of a model for so many rows. events: NULL: none. errors  those of mc_kv_pool_open
 */
mica_status mc_rows_open_pool(mc_session_model *model, int rows, uint64_t budget,
                              const mc_kv_events *events);

/* Blocks that an answer of so many tokens needs, and those of the pool. */
int64_t mc_rows_needed(const mc_schedule *s, int64_t tokens);
int64_t mc_rows_blocks(const mc_schedule *s);

/* Whether there are a row and blocks for the request's prompt. If not, *last receives the row of a
 * lower priority that must pause next; NULL: none, it waits. The lock is held. */
bool mc_rows_admit(const mc_schedule *s, const mc_request *request, mc_row **last);

/* Takes the blocks of a row, of which a copy may stay: that takes time, so the lock is not held.
 * false: it cannot read its text again. */
bool mc_rows_pause(mc_schedule *s, mc_row *row);

/* How many of `max` tokens a step reads where each takes so long (0: not known), by halves, so that
 * answers go on in time. */
int64_t mc_rows_step_tokens(int64_t max, double read_us);

/* Takes choices, and computes a step. */
void mc_rows_step(mc_schedule *s);

/* Reads the model's file of a folder, and names it to be saved. NULL: there is none.
 * errors  MICA_ENOMEM; MICA_EINTERNAL */
mica_status mc_prefixes_open(mc_schedule *s, const char *folder);
/* Saves it, if asked, once the thread has ended. */
void mc_prefixes_close(mc_schedule *s, bool save);

/* Computes a choice by another engine. */
void mc_turns_step(mc_schedule *s);

#endif

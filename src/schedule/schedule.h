/* The scheduler of one open model: requests from any threads, whose answers are computed together.
 *
 * It owns a thread, which does all computing. Each choice of a request is a row: an ordinary stream
 * over an ordinary session. A step computes one token of each row whose prompt is read, together,
 * and reads a few tokens of the other rows' prompts beside that. Rows join and leave between any
 * two steps. What a request gets is what it would get alone from mica_generate_ids, to the bit, on
 * devices whose rows have the same bits alone and among others (the CPU).
 *
 * Answers with draft_tokens have guesses computed in the same steps. Each guess makes the step
 * longer for all rows, so there are fewer the more rows there are, and none among many.
 *
 * The caches of all rows are in one pool of blocks (session/pool.h), which is the budget. A request
 * is taken when there are blocks for its prompt. If an answer needs a block and none is free, the
 * row of the lowest priority that came last pauses: it gives its blocks back, and reads its text
 * again when there are blocks for it. Rows also pause for a request of a higher priority that finds
 * no row or no blocks. What nobody has taken of a paused row's blocks meanwhile is found again,
 * like any prefix. Of a device whose memory the processor does not read, a paused row's caches are
 * copied to the host's, within a limit (session/swap.h). The choices of a request share the blocks
 * of the prompt, which is read once.
 *
 * Blocks that no row needs stay in the pool until others need the room, those used longest ago
 * first. A prompt that begins like an earlier text of the same salt goes on from these. One that
 * begins like another that is being read waits until that has read what both have.
 *
 * Requests that find no row wait in a queue of limited length. The highest priority is next, of
 * equal ones the one that has waited longest. A request that was overtaken by 8 others, in the
 * queue or while it pauses, counts one priority higher, so none waits for ever.
 *
 * Of a model that is a pipeline over ranks it has as many lanes as stages (schedule/lane.h), each
 * with its part of the rows and of the caches. A request is of the lane that has the fewest.
 *
 * A model of an engine that computes elsewhere gets its requests one after another.
 *
 * Threads: all functions may be called from any thread, those of one request until it is closed.
 * Within a callback only mc_request_cancel, mc_request_close, mc_schedule_submit,
 * mc_schedule_get_stats and mc_schedule_retry_seconds may be called. */
#ifndef SCHEDULE_SCHEDULE_H
#define SCHEDULE_SCHEDULE_H

#include "base/status.h"
#include "session/constraint.h"
#include "session/pool.h"

#include <mica/model.h>

typedef struct mc_schedule mc_schedule;
typedef struct mc_request mc_request; /* under way, with its choices */

typedef struct mc_schedule_options {
    int rows; /* answers computed together, 1 to 256; 0: 16 */
    /* Tokens of prompts read beside one step of decoding. 0: 512, but while answers are decoded as
     * many of these, by halves, as are read in half a second, and 64 at least. */
    int64_t step_tokens;
    size_t queue; /* requests that may wait; 0: 256 */
    /* Budget of all caches. 0: a quarter of the memory, but no more than all rows can use. */
    uint64_t cache_bytes;
    int draft_tokens; /* of requests that say nothing about it, up to MC_DRAFT_MAX; 0: none */
    /* A folder, made if it is missing, where what the caches keep of texts is saved, and found by
     * the next schedule of this model (session/prefix_file.h). It is saved when the schedule is
     * closed, unless requests are cut off by that. NULL: none. Copied. */
    const char *prefix_folder;
    /* Takes the text of what is wrong with that file, or with saving it: that ends nothing. Called
     * within mc_schedule_open and mc_schedule_close. May be NULL. */
    void (*notice)(void *user, const char *text);
    void *notice_user;
    /* Told of what the caches keep of texts: in the schedule's thread, and of their end within
     * mc_schedule_close. */
    mc_kv_events kv_events;
    /* Of a model over ranks: tells the others what the schedule does (session/lead.h), and outlives
     * it. NULL: the model is in this process. */
    struct mc_lead *lead;
    /* Of a lane that a schedule opens for itself: what it computes with, among how many lanes. */
    const struct mc_session_model *lane;
    int lanes;
} mc_schedule_options;

/* How a choice ended. Valid during the call. */
typedef struct mc_choice_end {
    mica_status status; /* of the stream: MICA_OK, MICA_ECANCELLED or an error */
    const char *error;  /* its text; "": none */
    mica_finish finish; /* why it ended */
    bool timed_out;     /* it was cancelled because max_seconds were over */
    mica_metrics metrics;
    double queue_seconds;       /* from the submission to its row */
    double first_token_seconds; /* from the submission to its first token; 0: it has none */
    double total_seconds;       /* from the submission to now */
} mc_choice_end;

/* A request. Everything is copied, but constraints.
 *
 * Callbacks run in the scheduler's thread and must not block: all answers wait meanwhile. Those of
 * one request never run at once. */
typedef struct mc_request_options {
    const int32_t *ids; /* the prompt, [n_ids] */
    size_t n_ids;
    /* Of each choice; choice i draws with seed + i. NULL: the defaults. Its progress is not called,
     * its cancel is not watched and its constraint is not read: prefill, mc_request_cancel and
     * constraints are there. */
    const mica_generate_options *generate;
    size_t choices;   /* answers to compute; 0: 1 */
    int priority;     /* higher first */
    const char *salt; /* caches are shared among requests of one salt; NULL: "" */
    /* Positions in the prompt, [n_marks], at which other prompts may part from it: the ends of the
     * system prompt and of messages. Models with sliding windows begin with a known prefix only
     * there; others need none. */
    const int64_t *marks;
    size_t n_marks;
    double max_seconds; /* limit of waiting and computing; 0: none */
    int64_t max_tokens; /* limit of an answer whose options have none; where the budget is not
                           enough for it, the answer ends sooner. 0: none */
    bool follows;       /* it is the rest of work that was taken: a full queue takes it */
    /* What each choice may say, [choices], each or all NULL: anything. Taken over by the call, also
     * with an error; closed in any thread. */
    mc_constraint *const *constraints;
    /* After each chunk of the prompt: `done` of `total` tokens are read, `cached` of these were
     * there already. May be NULL. Of the choice that reads. */
    void (*prefill)(void *user, int64_t done, int64_t total, int64_t cached);
    /* A token of a choice, as mica_stream_next gives it; false ends the choice: as one that was
     * cancelled, but it counts as stopped where the request was not. May be NULL. */
    bool (*token)(void *user, size_t choice, const mica_token *token);
    /* Once for each choice, always, and last. In the thread that closes the request, if that closes
     * it sooner. May be NULL. */
    void (*end)(void *user, size_t choice, const mc_choice_end *end);
    void *user;
} mc_request_options;

/* The model is kept open until the schedule ends.
 *  options  NULL: the defaults
 *  errors   MICA_EINVAL an option is out of range; MICA_ENOMEM, MICA_EDEVICE no thread */
mica_status mc_schedule_open(const mica_model *model, const mc_schedule_options *options,
                             mc_schedule **schedule);

/* Cancels all requests, and ends when the thread has. Requests that are not closed stay valid.
 * Takes NULL inside. */
void mc_schedule_close(mc_schedule **schedule);

/* The same, but prefixes are not saved: closing is then a matter of milliseconds. */
void mc_schedule_discard(mc_schedule **schedule);

/* Puts a request into the queue. *request is set before the first callback. An answer without
 * max_tokens ends by MICA_FINISH_LENGTH where the context does, in a model that was opened with a
 * context_length after as many tokens as that, or where the budget ends, if that is sooner.
 *
 *  errors  no callback is ever called then:
 *          MICA_ECONTEXT the prompt is longer than the context, or prompt and max_tokens need more
 *          cache than the budget has: the text has the numbers
 *          MICA_EBUSY the queue is full, or the schedule is being closed: the text says which
 *          MICA_EINVAL as mica_generate_ids; choices or max_seconds out of range
 *          MICA_EUNSUPPORTED constraints, and another engine computes the model
 *          MICA_ENOMEM */
mica_status mc_schedule_submit(mc_schedule *schedule, const mc_request_options *options,
                               mc_request **request);

/* Whether a request could be taken if nothing else were under way. Takes no constraints over.
 *  errors  as mc_schedule_submit, but MICA_EBUSY */
mica_status mc_schedule_check(mc_schedule *schedule, const mc_request_options *options);

/* In how many seconds a request that was refused may be taken: how long the queue takes now, 1 to
 * 600. */
double mc_schedule_retry_seconds(mc_schedule *schedule);

/* Ends all choices within one step: their `end` says MICA_ECANCELLED. Takes NULL. */
void mc_request_cancel(mc_request *request);

/* Cancels what has not ended, calls `end` for it, and frees the request. Waits for a callback of
 * the request that runs just now, so the caller must hold no lock that callbacks take; it may be
 * called within one. No callback runs once it has returned. Takes NULL inside. */
void mc_request_close(mc_request **request);

/* Seconds, counted in buckets: [i] up to mc_schedule_bounds[i], the last one beyond them all. */
enum { MC_SCHEDULE_BOUNDS = 18 };
extern const double mc_schedule_bounds[MC_SCHEDULE_BOUNDS];

typedef struct mc_seconds {
    uint64_t counts[MC_SCHEDULE_BOUNDS + 1];
    uint64_t count;
    double sum;
} mc_seconds;

/* Counters since it was opened, and how things stand now. */
typedef struct mc_schedule_stats {
    size_t rows, queue;      /* limits */
    size_t running, waiting; /* answers that have begun; requests in the queue */
    size_t paused;           /* of those that have begun */
    uint64_t steps;          /* of decoding */
    uint64_t step_rows;      /* tokens computed in them */
    uint64_t prompt_tokens;  /* of the prompts that were read */
    uint64_t cached_tokens;  /* of these, in the caches already */
    uint64_t generated_tokens;
    uint64_t drafted_tokens, accepted_tokens; /* of answers that have ended: mica_metrics */
    uint64_t pauses;
    uint64_t swaps;           /* rows that went on from a copy of their caches */
    uint64_t swapped_bytes;   /* of such copies */
    double mask_seconds;      /* that masks of constraints took */
    double mask_wait_seconds; /* of these, what steps did not hide */
    uint64_t stopped, length, cancelled, timed_out, failed; /* answers, by how they ended */
    uint64_t refused_context, refused_busy, refused_other;  /* requests */
    uint64_t cache_bytes, kept_bytes,
        cache_budget;            /* of rows; of prefixes that none uses; of all */
    int64_t block_tokens;        /* of a block of the caches */
    int64_t cache_tokens;        /* that all blocks have room for, of one text */
    mc_seconds queue_time;       /* from a submission to its row; of choices */
    mc_seconds first_token_time; /* from a submission to the first token of a choice */
    mc_seconds token_time;       /* between two tokens of a choice */
    mc_seconds total_time;       /* from a submission to the end of a choice */
} mc_schedule_stats;

/* An answer is counted before its `end` is called, and runs until that has returned. */
void mc_schedule_get_stats(mc_schedule *schedule, mc_schedule_stats *stats);

#endif

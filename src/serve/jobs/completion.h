/* Answers that the scheduler computes for a request: the bridge between its callbacks and the
 * connection.
 *
 * A job has prompts, and as many choices for each: choice = prompt * choices + i. An endpoint fills
 * in a job at the beginning of a struct of its own, and its ops, which the scheduler's thread calls
 * one after another; they must not block:
 *
 *     token   a token of a choice; what it writes to a stream goes out at once
 *     end     a choice has ended
 *     done    all have: now the whole answer is sent, or the stream ended
 *     close   frees the struct; in a worker's thread, after all of these
 *
 * If there are more prompts than may wait, the rest is submitted as those before end. If a choice
 * fails, the others are cancelled, and job->failure says why when `done` is called. A
 * choice that is cancelled by anything but `token` has failed.
 * When the client is gone, or does not read its stream fast enough, all choices are cancelled. */
#ifndef SERVE_JOBS_COMPLETION_H
#define SERVE_JOBS_COMPLETION_H

#include "base/arena.h"
#include "schedule/schedule.h"
#include "serve/http/exchange.h"
#include "serve/jobs/answer_form.h"
#include "serve/models/models.h"

typedef struct mc_completion mc_completion;

typedef struct mc_completion_ops {
    bool (*token)(mc_completion *job, size_t choice,
                  const mica_token *token); /* false: cancels it */
    void (*end)(mc_completion *job, size_t choice, const mc_choice_end *end);
    void (*done)(mc_completion *job);
    void (*close)(mc_completion *job);
} mc_completion_ops;

/* MC_COMPLETION_LOGPROBS: of all tokens and their alternatives in an answer that is kept whole. */
enum { MC_PROMPT_MARKS = 64, MC_COMPLETION_LOGPROBS = 1 << 20 };

/* The token ids of a prompt. */
typedef struct mc_completion_prompt {
    int32_t *ids; /* [n], freed with mica_free when the job closes */
    size_t n;
    int64_t marks[MC_PROMPT_MARKS]; /* [n_marks] where others may part from it */
    size_t n_marks;
    size_t skip; /* the first tokens that an embedder does not pool */
} mc_completion_prompt;

typedef struct mc_completion_request mc_completion_request;

struct mc_completion {
    const mc_completion_ops *ops;
    mc_exchange *http;
    mc_served *served;
    mc_completion_prompt *prompts; /* [count], freed when the job closes */
    size_t count;
    size_t choices; /* for each prompt */
    int priority;
    int64_t asked_tokens;    /* of each answer, by a field of the request; 0: it asks for none */
    const char *asked_field; /* that one's name */
    mc_answer_form form;     /* of each answer; zero: any text. Freed when the job closes */
    bool comments;           /* an event stream that gets comments while prompts are read */
    bool whole;              /* the ops keep the answers to their end */

    mc_arena arena; /* what the options point at. Freed when the job closes */
    bool stopped;   /* `token` has found that the answer is whole, and returns false: it counts as
                     stopped, and the other choices go on */

    /* Sums over what has ended. */
    int64_t prompt_tokens, cached_tokens, answer_tokens;
    int64_t thought_tokens; /* of the answers; where the job's ops count them */
    mc_failure failure;     /* the first choice that failed; status 0: none has */

    /* Private. */
    mica_generate_options options;   /* of each choice */
    uint64_t logprobs;               /* that the ops were told, of all choices */
    mc_completion_request *requests; /* [count] */
    size_t next;                     /* the first prompt that was not submitted */
    atomic_size_t submitted;
    bool refused; /* nothing is told the ops any more */
    atomic_bool cancelled;
    bool attached;
    pthread_mutex_t lock; /* held while an op but close is called: requests may be ended by the
                             thread that closes them */
    pthread_mutex_t requests_lock; /* guards the requests' handles; no callback waits for it */
    size_t left;                   /* choices that have not ended, of prompts that were submitted or
                                      will be */
};

/* Ties the job to its exchange: from now on it is closed with that, whatever happens. */
void mc_completion_attach(mc_completion *job);

/* For what takes the job's place at the exchange (serve/jobs/evaluation.h): its client is gone,
 * and the job is to be closed. */
void mc_completion_hangup(mc_completion *job);
void mc_completion_close(mc_completion *job);

/* Whether the request asks for no more than the operator allows: tokens and priority.
 * returns  false: http->failure says why */
bool mc_completion_check(const mc_completion *job);

/* Submits the prompts, once the request is checked; attaches the job first, if it is not.
 *
 *  options  of each choice. Copied; what it points at is borrowed during the call, or until the job
 *           closes where it has several prompts.
 *  returns  false: http->failure says why, and no op but close is called any more */
bool mc_completion_start(mc_completion *job, const mica_generate_options *options);

/* Whether something in an op went well; if not, the job has failed, unless only its client is gone.
 */
bool mc_completion_note(mc_completion *job, mica_status status);

/* Sends the answer that is in http->out, or why there is none. written: all of it is there. */
void mc_completion_reply(mc_completion *job, bool written);

/* Begins to stream what ops write: to be called once mc_completion_start has returned true. */
void mc_completion_stream(mc_completion *job, const char *content_type);

#endif

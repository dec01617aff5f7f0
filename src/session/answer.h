/* The text side of an answer: what becomes of its prompt and of its tokens, whoever computes them.
 *
 * It checks and truncates the prompt, echoes it, counts tokens against the limits, decodes them,
 * looks for stop ids and stop strings, and keeps how the answer ended. mica/model.h says what
 * callers may rely on.
 *
 * Threads: one at a time; mc_answer_cancel from any thread and from a signal handler. */
#ifndef SESSION_ANSWER_H
#define SESSION_ANSWER_H

#include "session/stop_text.h"
#include "session/tokens.h"

#include <mica/model.h>

#include <stdatomic.h>

/* What an answer must know of its model. */
typedef struct mc_answer_model {
    int64_t vocab;                   /* ids of the prompt are below it */
    int64_t room;                    /* maximum number of tokens of prompt and answer */
    const int32_t *stop_ids;         /* [stop_count]. Borrowed */
    size_t stop_count;               /* number of the model's own stop ids */
    const mica_tokenizer *tokenizer; /* NULL: tokens have no text */
} mc_answer_model;

typedef struct mc_answer { /* zero is closed */
    mc_tokens text;        /* prompt, then answer; holds the whole prompt until that is computed */
    mc_buffer stops;       /* int32 */
    mc_stop_text stop_text;
    mica_decoder_stream *decoder;    /* NULL: tokens have no text */
    const mica_tokenizer *tokenizer; /* the decoder's */
    int64_t room, prompt;            /* tokens: room for all; of the prompt */
    int64_t min_tokens, max_tokens;
    int64_t echo;                 /* prompt tokens still to be handed out */
    int64_t truncated, generated; /* tokens: cut from the prompt; handed out */
    atomic_bool cancelled;
    mica_finish finish; /* why it ends; text held back may still follow */
    mica_status status;
    bool ended;                   /* all text was handed out */
    uint64_t opened_us, ended_us; /* mc_now_us; ended_us 0: not yet */
} mc_answer;

/* Takes a prompt and the options that concern text. After an error it must be closed, too.
 * errors  MICA_EINVAL, MICA_ECONTEXT, MICA_ENOMEM */
mica_status mc_answer_open(mc_answer *answer, const mc_answer_model *model, const int32_t *ids,
                           size_t n, const mica_generate_options *options);
void mc_answer_close(mc_answer *answer);

/* Computes the next token: sets its id and, if asked for, logprob and alternatives. Or there is no
 * token, because the computer has stopped by itself: *end, MICA_FINISH_NONE before, then says
 * why. */
typedef mica_status (*mc_answer_compute)(void *context, mica_token *token, mica_finish *end);

/* As mica_stream_next. Adds each computed token to answer->text. */
bool mc_answer_next(mc_answer *answer, mc_answer_compute compute, void *context, mica_token *token);

void mc_answer_cancel(mc_answer *answer);
bool mc_answer_is_cancelled(const mc_answer *answer);
/* errors  MICA_ECANCELLED */
mica_status mc_answer_check(const mc_answer *answer);

/* Whether a token is a stop id: it ends the answer and is not handed out. */
bool mc_answer_stops_at(const mc_answer *answer, int32_t id);

/* Whether max_tokens or the end of the context is reached. */
bool mc_answer_is_full(const mc_answer *answer);

/* mica_metrics.total_seconds */
double mc_answer_seconds(const mc_answer *answer);

#endif

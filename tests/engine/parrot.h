/* An engine for tests: it answers with the prompt's own tokens, one by one. */
#ifndef ENGINE_PARROT_H
#define ENGINE_PARROT_H

#include <mica/mica.h>

#include <stdatomic.h>

enum { PARROT_ALTERNATIVES = 1024 };

/* What the parrot is told, and what it tells. */
typedef struct parrot {
    atomic_int models, sessions, answers; /* open now */
    atomic_int cancels;                   /* calls of answer_cancel */
    atomic_int takes;                     /* answer of takes() */
    const char *missing;                  /* what available() misses; NULL: nothing */
    int64_t fails_at;                     /* this token of an answer is an error; 0: none */
    int32_t odd;                          /* a token to give instead of the first; 0: none */
    size_t alternatives;                  /* of each token, up to PARROT_ALTERNATIVES, all alike */
    const mica_metrics *metrics;          /* NULL: none */
    mica_generate_options got;            /* the last answer_open's */
} parrot;

/* Its functions, with the given name and user. */
mica_engine parrot_engine(const char *name, parrot *p);

#endif

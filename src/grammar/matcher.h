/* Running a grammar: which bytes may come, state by state.
 *
 * A state is a set of configurations, each a node with the stack of the calls that it is within.
 * Stacks share their ends. States are numbered as they are met, and the state after a byte is kept,
 * so that a grammar that is run twice costs a look-up for a byte. What is kept is bounded: when it
 * grows too large all is forgotten but the state that is held.
 *
 * A matcher counts its work and fails beyond a bound, so that no grammar, however it is made, stops
 * those that wait for it: a mask may take MC_MATCHER_WORK once, and MC_MATCHER_MORE on average. A
 * unit is about a nanosecond.
 *
 * Threads: a matcher belongs to one thread at a time. */
#ifndef GRAMMAR_MATCHER_H
#define GRAMMAR_MATCHER_H

#include "base/buffer.h"
#include "grammar/grammar_build.h"

typedef struct mc_matcher_config {
    int32_t node;  /* a range, or MC_RETURN with an empty stack: the document may end */
    int32_t stack; /* the top frame; 0: none */
} mc_matcher_config;

typedef struct mc_state {
    size_t begin; /* of its configurations */
    uint32_t count, hash;
    bool may_end;
    bool plain; /* every plain text may come, and leads somewhere */
    int32_t
        *after; /* [256] the state behind each byte, or one of the following; NULL: none known */
    uint32_t *mask; /* the caller's, freed with the state; NULL: none yet */
} mc_state;

enum { MC_STATE_DEAD = -1, MC_STATE_UNKNOWN = -2 };

enum {
    MC_MATCHER_WORK = 1 << 26, /* that a matcher may have in store */
    MC_MATCHER_MORE = 1 << 23  /* that is added for a token */
};

typedef struct mc_matcher_frame {
    int32_t node, below;
    int32_t depth;
} mc_matcher_frame;

typedef struct mc_matcher {             /* zero is closed */
    mc_grammar *grammar;                /* held */
    mc_buffer frames;                   /* mc_matcher_frame; 0 is no frame */
    mc_buffer configs;                  /* mc_matcher_config, of all states */
    mc_buffer states;                   /* mc_state */
    mc_buffer state_slots, frame_slots; /* int32: hash tables; -1: free */
    mc_buffer todo, found;              /* mc_matcher_config: of the closure that is made */
    mc_buffer visited;                  /* int32: a hash table into `todo` */
    int64_t work;                       /* that is left */
    size_t bytes;                       /* of what states hold beside */
    size_t mask_bytes;                  /* of a mask */
    bool plain;                         /* of the closure that is made */
    /* The state that is kept when all is forgotten; MC_STATE_DEAD: an error has lost it. */
    int32_t held;
} mc_matcher;

/* mask_bytes: how large a mask of mc_state is. Holds the grammar's first state. */
mica_status mc_matcher_open(mc_grammar *grammar, size_t mask_bytes, mc_matcher *m);
void mc_matcher_close(mc_matcher *m); /* takes a closed one */
/* Goes back to the first state; keeps what is known.
 * errors  MICA_EUNSUPPORTED too much work, too many ways to begin, or none; MICA_ENOMEM */
mica_status mc_matcher_reset(mc_matcher *m);

/* Allows the work of another token. */
void mc_matcher_refill(mc_matcher *m);
/* Counts work. errors  MICA_EUNSUPPORTED there was too much */
mica_status mc_matcher_spend(mc_matcher *m, size_t work);

/* The state behind a byte. *to receives MC_STATE_DEAD if the byte may not come. Pointers to states
 * are valid until the next call.
 * errors  MICA_EUNSUPPORTED too much work, too many states, or too many ways to read the byte:
 *         none is left out; MICA_ENOMEM */
mica_status mc_matcher_step(mc_matcher *m, int32_t from, uint8_t byte, int32_t *to);

static inline mc_state *mc_matcher_state(mc_matcher *m, int32_t state) {
    return &MC_BUFFER_AT(&m->states, mc_state)[state];
}

/* mc_grammar_accepts. *work receives what is left of it.
 * errors  as mc_matcher_step */
mica_status mc_matcher_accepts(mc_grammar *grammar, const char *text, size_t len, int64_t *work,
                               bool *accepted, size_t *prefix);

/* Bytes of memory that it takes, with its grammar. */
size_t mc_matcher_bytes(const mc_matcher *m);

/* Where `held` is the only state that is referred to: forgets others if these are too large. After
 * an error there is none. errors  as mc_matcher_step */
mica_status mc_matcher_trim(mc_matcher *m);

#endif

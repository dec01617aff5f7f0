/* Building grammars: nodes of a pushdown automaton over bytes.
 *
 * A node reads a byte of a range, splits into two, or calls a rule and goes on behind it. Grammars
 * are built backwards: a function gets the node that comes next and returns the node that begins.
 * MC_DEAD is a node from which nothing is accepted; what leads only there becomes MC_DEAD itself.
 *
 * Errors stick: after one every function returns MC_DEAD, and mc_grammar_finish reports it.
 * Threads: one at a time. */
#ifndef GRAMMAR_GRAMMAR_BUILD_H
#define GRAMMAR_GRAMMAR_BUILD_H

#include "base/buffer.h"
#include "base/status.h"
#include "base/str.h"
#include "grammar/grammar.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    MC_DEAD = -1,
    MC_RETURN = 0, /* ends the rule, or the document */
    /* How deep rules may nest: documents nest about as deep. Every node is reached only at depths
     * from which a document can still be finished. */
    MC_GRAMMAR_DEPTH = 128,
    MC_GRAMMAR_NODES = 1 << 19, /* at most so many */
    /* Texts of up to so many characters, none of which ends or escapes anything in a JSON string,
     * are plain. */
    MC_PLAIN_CHARS = 24
};

typedef enum mc_grammar_node_kind {
    MC_NODE_RETURN,
    MC_NODE_RANGE,
    MC_NODE_SPLIT,
    MC_NODE_CALL
} mc_grammar_node_kind;

typedef struct mc_grammar_node {
    uint8_t kind;
    uint8_t low, high; /* RANGE: the bytes that it reads */
    bool plain;        /* every plain text is accepted from here, and leads somewhere */
    int16_t height;    /* how many frames finishing the rule takes at least; > DEPTH: impossible */
    int32_t next;      /* RANGE, CALL: what comes behind; SPLIT: one way */
    int32_t other;     /* SPLIT: the other way; CALL: the rule */
} mc_grammar_node;

struct mc_grammar {
    atomic_uint count;
    uint32_t hash;   /* of what follows */
    mc_buffer nodes; /* mc_grammar_node */
    mc_buffer rules; /* int32 */
    int32_t start;
};

struct mc_builder {
    mica_status status;
    char error[512];
    mc_buffer nodes; /* mc_grammar_node */
    mc_buffer rules; /* int32: the node that begins a rule */
    /* A grammar must not take long, of however many schemas it is made: */
    size_t work;  /* nodes that products have looked at */
    size_t steps; /* that schemas have taken */
    size_t parts; /* of patterns and grammars that were compiled, once for each repetition */
};
typedef struct mc_builder mc_builder;

void mc_builder_init(mc_builder *b);
void mc_builder_deinit(mc_builder *b);
/* Keeps the first error: the thread's error text. */
void mc_builder_fail(mc_builder *b, mica_status status);
/* Counts a part. Repetitions within repetitions of what reads nothing add no nodes, and yet double
 * the work with each level. false: there was an error, or there were too many, which is one. */
bool mc_builder_count(mc_builder *b);

/* next MC_DEAD gives MC_DEAD. */
int32_t mc_build_range(mc_builder *b, int low, int high, int32_t next);
int32_t mc_build_text(mc_builder *b, const char *bytes, size_t len, int32_t next);
int32_t mc_build_call(mc_builder *b, int32_t rule, int32_t next);
/* Either of two; one of them may be MC_DEAD. */
int32_t mc_build_split(mc_builder *b, int32_t one, int32_t other);

/* A node that mc_build_close makes a split later: the beginning of a loop. */
int32_t mc_build_open(mc_builder *b);
void mc_build_close(mc_builder *b, int32_t node, int32_t one, int32_t other);
void mc_build_plain(mc_builder *b, int32_t node); /* marks it as plain */

/* A rule that mc_build_define gives its beginning later. Returns MC_DEAD after an error. */
int32_t mc_build_rule(mc_builder *b);
void mc_build_define(mc_builder *b, int32_t rule, int32_t start);

/* One of several texts, each with the bytes of `next` behind it. Beginnings are shared. Sorts
 * texts. */
int32_t mc_build_choice(mc_builder *b, mc_str *texts, size_t count, int32_t next);

/* Any bytes up to and with a text that is not empty, which does not occur before. `next` comes
 * behind the text; `without` is where it goes on at any place before: MC_RETURN lets the text never
 * come, MC_DEAD insists. */
int32_t mc_build_until(mc_builder *b, mc_str text, int32_t next, int32_t without);

/* Makes a grammar whose documents begin at `start`; the builder is empty then.
 * errors  the first error of building; MICA_EINVAL nothing is accepted; MICA_ENOMEM */
mica_status mc_grammar_finish(mc_builder *b, int32_t start, mc_grammar **grammar);

/* Whether two grammars were built alike: then they have the same states, too. */
bool mc_grammar_is_same(const mc_grammar *a, const mc_grammar *b);

/* Bytes of memory that it takes. */
size_t mc_grammar_bytes(const mc_grammar *grammar);

#endif

/* What a program consists of, for the files that build, run, print and save it. */
#ifndef EXEC_PROGRAM_H
#define EXEC_PROGRAM_H

#include <mica/program.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "exec/cache.h"
#include "exec/precision.h"

/* What a run needs in memory. What does not change between runs is filled in once. */
typedef struct mc_program_buffers mc_program_buffers;
struct mc_program_buffers {
    mc_program_buffers *next; /* in the list of those that nobody uses */
    mc_binding *args;         /* [leaves] */
    uint64_t *scalars;
    mc_result *results;
};

/* Where an argument goes. */
typedef struct mc_program_place {
    uint32_t leaf;   /* of the compiled graph; MC_ABSENT: no result needs the parameter */
    bool scalar;     /* given by its value */
    uint32_t number; /* of the scalar */
} mc_program_place;

struct mica_program {
    atomic_uint users; /* its opener, and executables */
    mica_device *device;
    mica_scope *graph; /* nodes [0, n_params) are the parameters; other leaves have values */
    mc_arena arena;    /* the lists below */
    size_t n_params, n_results;
    const char **names;        /* [n_params] */
    mc_program_place *places;  /* [n_params] */
    mica_array *results;       /* [n_results] of the graph */
    const char **result_names; /* [n_results] */
    size_t n_symbols;
    const mc_symbol *symbols; /* [n_symbols] that parameters have */
    mica_port *ports;         /* [n_params + n_results] with symbols: shapes and names; or NULL */
    uint32_t n_leaves;
    uint32_t *leaves;  /* [n_leaves] nodes of the graph */
    mc_cached *cached; /* NULL: there are symbols */
    pthread_mutex_t lock;
    mc_program_buffers *spare; /* guarded by lock */
};

/* A reference more, which mica_program_close ends. */
mica_program *mc_program_retain(const mica_program *p);

/* The parameters and results by their nodes; the lists are in memory of the arena.
 * errors  MICA_ENOMEM */
mica_status mc_program_ports(const mica_program *p, mc_arena *arena, mc_graph_ports *ports);

/* Sets those of `needed` [nodes of the graph] that results need. */
void mc_program_mark_needed(const mica_program *p, bool *needed);

/* mica_program_run without waiting for its end: the results may be arguments of further runs, and
 * can be read, before mc_device_wait tells what came of the run. The program stays open until then.
 *
 *  fence   receives what to wait for, once; 0: it is over
 *  errors  as mc_program_run_kept, but those that depend on data */
mica_status mc_program_launch(const mica_program *program, mica_scope *into, const mica_array *args,
                              mica_array *results, mc_fence *fence);

/* mica_program_run, where donated arguments stay the caller's if the run fails. Ops that had begun
 * may have written into them, in place: for who knows which elements these are. Where a device
 * moves what it was given (mc_backend.moves_donated), arguments that it took are gone.
 * errors  as mica_program_run */
mica_status mc_program_run_kept(const mica_program *program, mica_scope *into,
                                const mica_array *args, mica_array *results);

/* ---- symbols (exec/program_symbols.c, exec/program_bind.c) ---- */

/* Finds the symbols that parameters of the graph have. errors  those of mica_program_build */
mica_status mc_program_find_symbols(mica_program *p);

/* Whether a dimension is a symbol: which, or n_symbols. */
size_t mc_program_symbol_of(const mica_program *p, int64_t dim);

/* The symbol of a name: which, or n_symbols; a NULL name is that of none. */
size_t mc_program_find_symbol(const mica_program *p, const char *name);

/* Compares a layout with that of parameter i, but for its dtype, and takes symbols' values from it.
 *
 *  lengths  [n_symbols] -1: not known yet
 *  errors   MICA_ESHAPE it does not fit, or a symbol has another value: the text has both */
mica_status mc_program_match(const mica_program *p, size_t i, const mc_layout *given,
                             int64_t *lengths);

/* Records the graph for values of the symbols in a new scope, whose first nodes are the parameters.
 *
 *  precision  what floats are computed in; NULL: what they were recorded in
 *  results    [n_results] receives those of it
 *  errors     MICA_ESHAPE, MICA_EDTYPE; MICA_ENOMEM */
mica_status mc_program_record(const mica_program *p, const int64_t *lengths,
                              const mc_precision *precision, mica_scope **scope,
                              mica_array *results);

/* The program for values of the symbols, as mica_program_bind makes it. errors  as there */
mica_status mc_program_bind(const mica_program *p, const int64_t *lengths, mica_program **bound);

/* lengths [n_symbols] receives the values by name. errors  those of mica_program_bind */
mica_status mc_program_lengths(const mica_program *p, const mica_length *given, size_t n,
                               int64_t *lengths);

#endif

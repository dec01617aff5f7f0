/* What executables run: a program for given lengths, with what was compiled of it.
 *
 * An executable and its clones share a list of them, one for the lengths of each run, from which
 * those that were used longest ago go. A program without open lengths has one.
 *
 * Threads: the list is safe; one of it never changes, but for its seats, which are guarded. */
#ifndef EXEC_BOUND_H
#define EXEC_BOUND_H

#include "exec/compiled.h"
#include "exec/program.h"

/* A parameter of a bound program. */
typedef struct mc_bound_param {
    const mc_layout *layout;
    uint32_t leaf; /* of the compiled graph; MC_ABSENT: nothing reads it */
    bool scalar;   /* bound as a number */
    uint32_t number;
} mc_bound_param;

/* What a run fills in: one thread has it at a time. Constants are bound. */
typedef struct mc_seat mc_seat;
struct mc_seat {
    mc_seat *next;
    mc_binding *args;
    uint64_t *scalars;
};

typedef struct mc_bound {
    struct mc_bound *next;
    uint32_t users;         /* holders, and the list; guarded by it, as the next two */
    uint64_t used;          /* when last, by the list's clock */
    mc_seat *spare;         /* that nobody has */
    size_t bytes;           /* of memory that it holds, about */
    mc_arena arena;         /* the lists below */
    int64_t *lengths;       /* [symbols of the program] */
    mica_scope *scope;      /* the graph: the program's, or one for these lengths */
    mica_array *results;    /* [n_results] of it */
    mc_bound_param *params; /* [n_params] */
    mc_compiled *compiled;  /* NULL where ops are evaluated one by one */
    mica_scope *passed;     /* the graph that was compiled; NULL: scope */
    uint32_t n_leaves;
    uint32_t *leaves;                /* [n_leaves] of that graph */
    uint32_t changed[MC_PASS_COUNT]; /* by the passes over its graph */
} mc_bound;

typedef struct mc_bounds {
    atomic_uint users;
    mica_program *program; /* a reference */
    mica_mode mode;        /* eager: nothing is compiled */
    bool no_fallback;      /* ops that the device lacks are an error */
    uint32_t passes_off;
    mc_precision precision;
    size_t max_count, max_bytes;
    pthread_mutex_t lock; /* of all below */
    mc_bound *first;
    size_t count, bytes;
    uint64_t clock;
} mc_bounds;

/* errors  MICA_ENOMEM */
mica_status mc_bounds_open(const mica_program *program, mica_mode mode, uint32_t passes_off,
                           mc_bounds **bounds);
mc_bounds *mc_bounds_retain(mc_bounds *bounds);
void mc_bounds_release(mc_bounds *bounds); /* takes NULL */

/* The program for these lengths [symbols of the program], found or made; given back with
 * mc_bounds_put.
 *
 *  made    NULL, or receives whether it was compiled just now
 *  errors  MICA_ESHAPE the lengths do not fit; those of mc_passes_run and mc_compiled_make;
 *          MICA_ENOMEM, also where a run takes more than the device's limit */
mica_status mc_bounds_get(mc_bounds *bounds, const int64_t *lengths, mc_bound **bound, bool *made);
void mc_bounds_put(mc_bounds *bounds, mc_bound *bound); /* takes NULL */

/* A seat of a bound program that is held; NULL: no memory. */
mc_seat *mc_bound_sit(mc_bounds *bounds, mc_bound *bound);
void mc_bound_leave(mc_bounds *bounds, mc_bound *bound, mc_seat *seat); /* takes a NULL seat */

#endif

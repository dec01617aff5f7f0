/* What a program consists of, for the files that build, run, print and save it. */
#ifndef EXEC_PROGRAM_H
#define EXEC_PROGRAM_H

#include <mica/program.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "exec/cache.h"

/* What a run needs in memory, a list of which a program keeps (program.c). */
typedef struct mc_program_buffers mc_program_buffers;

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
    uint32_t n_leaves;
    uint32_t *leaves; /* [n_leaves] nodes of the graph */
    mc_cached *cached;
    pthread_mutex_t lock;
    mc_program_buffers *spare; /* guarded by lock */
};

/* A reference more, which mica_program_close ends. */
mica_program *mc_program_retain(const mica_program *p);

/* The parameters and results by their nodes; the lists are in memory of the arena.
 * errors  MICA_ENOMEM */
mica_status mc_program_ports(const mica_program *p, mc_arena *arena, mc_graph_ports *ports);

/* mica_program_run without waiting for its end: the results may be arguments of further runs, and
 * can be read, before mc_device_wait tells what came of the run. The program stays open until then.
 *
 *  fence   receives what to wait for, once; 0: it is over
 *  errors  as mica_program_run, but those that depend on data */
mica_status mc_program_launch(const mica_program *program, mica_scope *into, const mica_array *args,
                              mica_array *results, mc_fence *fence);

#endif

/* What an executable consists of, for the files that set its values and run it.
 *
 * Calls of its thread that read or change values end its queued runs first (mc_executable_drain).
 * A queued run has the values that it was given; those that are set it takes when it runs. */
#ifndef EXEC_EXECUTABLE_H
#define EXEC_EXECUTABLE_H

#include <mica/executable.h>

#include "base/cancel.h"
#include "device/device.h"
#include "exec/bound.h"
#include "exec/extent.h"

/* The value of a parameter: memory, dense, with a reference, or one number's bits. */
typedef struct mc_value_of {
    bool set;
    bool number; /* bits is the value; only for parameters that are bound as numbers */
    bool own;    /* a run may write over it */
    uint64_t bits;
    mc_storage *storage;
    int64_t offset_bytes;
    mc_layout layout; /* of a parameter with symbols: the shape that it has */
} mc_value_of;

void mc_value_drop(mc_value_of *value);
mc_value_of mc_value_share(const mc_value_of *value); /* with a reference of its own */

typedef struct mc_executable_param {
    const char *name; /* the program's */
    const mc_layout *layout;
    size_t bytes;
    bool open; /* its layout has symbols: what is set, or given, says more */
    bool donate;
    mc_value_of value;
    uint32_t fed_by;     /* result; MC_ABSENT: none */
    mc_storage *staging; /* of mica_executable_run_slots */
} mc_executable_param;

/* A run. It is the executable's own, or a ticket. */
struct mica_ticket {
    mc_job job; /* first */
    mica_executable *x;
    struct mica_ticket *next; /* in the executable's list of tickets */
    mica_cancel cancel;
    mc_value_of *given; /* [n_params] */
    mc_result *results; /* [n_results] after it */
    mc_layout *layouts; /* [n_results] */
    mica_status status;
    char error[1024];
};
typedef struct mica_ticket mc_executable_run;

/* Of a result the axis that a run has the first elements of, and the result that says how many. */
typedef struct mc_executable_trim {
    int axis;
    uint32_t count; /* MC_ABSENT: it is not trimmed */
} mc_executable_trim;

struct mica_executable {
    mica_device *device;
    mica_program *program; /* a reference */
    mica_mode mode;
    size_t slot_align;
    bool check_nan;
    const char *trace; /* a file; NULL: none */
    mc_arena arena;    /* lists */
    size_t n_params, n_results;
    mc_executable_param *params; /* [n_params] */
    const mc_layout **results;   /* [n_results] of the graph */
    mc_executable_trim *trims;   /* [n_results] */
    mc_bounds *bounds;           /* shared with clones */
    mc_bound *bound; /* of the last run, held, with a seat where it is compiled; NULL: none */
    mc_seat *seat;
    int64_t lengths[MC_MAX_SYMBOLS];            /* of the run at hand */
    int64_t rows[MC_MAX_SYMBOLS];               /* that are computed at most; -1: all */
    char mixes[MC_MAX_SYMBOLS][MC_EXTENT_TEXT]; /* why all are; "": they need not be */
    bool asked[MC_MAX_SYMBOLS];                 /* mixes is known */
    mc_executable_run *own;                     /* for runs of this thread */
    mc_executable_run *tickets;                 /* that are not waited for, the last queued first */
    bool feeds;                                 /* a parameter is fed */
    mica_status broken; /* of a run that failed, for those queued behind it; with its text */
    char broken_text[1024];
    uint32_t *slotted; /* [n_slots] results that have slots; with room for all */
    size_t n_slots;    /* number of them */
    mica_slot *slots;  /* [n_slots]; NULL: not made yet */
    char *slot_memory;
    atomic_ullong runs, compiles;
};

/* Waits for all that is queued. errors  MICA_EDEVICE it never ends: this process is a fork */
mica_status mc_executable_drain(mica_executable *x);

/* errors  MICA_ENOENT, with the nearest name */
mica_status mc_executable_find(mica_executable *x, const char *what, const char *name, size_t *i);

/* Finds the first result of that name. errors  MICA_ENOENT, with the nearest name */
mica_status mc_executable_find_result(const mica_executable *x, const char *what, const char *name,
                                      uint32_t *i);

/* Makes an input the value of parameter i. errors  those of mica_executable_set */
mica_status mc_executable_resolve(mica_executable *x, const mica_input *input, size_t i,
                                  mc_value_of *value);

/* Whether a result has the shape of a parameter, whose symbols take any length. */
bool mc_executable_feeds(const mica_executable *x, size_t result, size_t param);

/* A run with room for values and results; NULL: no memory. */
mc_executable_run *mc_executable_run_new(mica_executable *x);
void mc_executable_run_free(mc_executable_run *run);

/* Makes the program for x->lengths x->bound. errors  those of mc_bounds_get */
mica_status mc_executable_bind(mica_executable *x);

/* The layout of a parameter's value. */
static inline const mc_layout *mc_executable_layout(const mc_executable_param *param,
                                                    const mc_value_of *value) {
    return param->open ? &value->layout : param->layout;
}

/* Evaluates op by op what run->given and the set values say, into run->results and layouts. */
mica_status mc_executable_run_eager(mc_executable_run *run);

/* The value that a run takes for a parameter; NULL: none. */
static inline const mc_value_of *mc_executable_value(const mc_executable_run *run, size_t i) {
    return run->given[i].set             ? &run->given[i]
           : run->x->params[i].value.set ? &run->x->params[i].value
                                         : NULL;
}

#endif

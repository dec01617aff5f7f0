/* Optimisers: a row of optimizer_list.h and a file each.
 *
 * A row records an update in plain ops, so it runs on every device. Parameters of any float dtype
 * are updated in f32 and rounded once; states are f32. Threads: any. */
#ifndef TUNE_OPTIMIZER_H
#define TUNE_OPTIMIZER_H

#include "base/status.h"

#include <mica/ops.h>
#include <mica/tune.h>

enum { MC_OPTIMIZER_STATES = 3 };

/* The update of one parameter, as it is recorded. */
typedef struct mc_update {
    mica_scope *s;
    const mica_optimizer_options *options; /* all filled in */
    mica_array rate;                       /* f32 []: the learning rate */
    mica_array step;                       /* f32 []: number of this step, from 1 */
    mica_array param, grad;                /* f32, of one shape */
    mica_array states[MC_OPTIMIZER_STATES];
} mc_update;

typedef struct mc_optimizer {
    const char *name, *summary;
    mica_optimizer_options defaults;
    /* The number of states of a parameter of that shape, and their shapes. */
    int (*states)(const mica_optimizer_options *options, const int64_t *shape, int ndim,
                  int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                  int ndims[MC_OPTIMIZER_STATES]);
    /* Replaces u->param and u->states. Errors are in u->s. */
    void (*update)(mc_update *u);
} mc_optimizer;

#define OPTIMIZER(name) extern const mc_optimizer mc_optimizer_##name;
#include "tune/optimizer_list.h"
#undef OPTIMIZER

/* The one of a name; NULL: there is none. */
const mc_optimizer *mc_optimizer_find(const char *name);

/* Fills in what options leave at 0, and checks them. errors  MICA_EINVAL, naming the optimisers */
mica_status mc_optimizer_complete(const mica_optimizer_options *options,
                                  mica_optimizer_options *full, const mc_optimizer **row);

/* ---- for the rows' files ---- */

/* States of the parameter's own shape, n of them. */
int mc_optimizer_same_shape(int n, const int64_t *shape, int ndim,
                            int64_t shapes[MC_OPTIMIZER_STATES][MICA_MAX_NDIM],
                            int ndims[MC_OPTIMIZER_STATES]);
/* a x + b y, a and b being numbers of the host. */
mica_array mc_blend(mica_scope *s, double a, mica_array x, double b, mica_array y);
/* param (1 - rate * weight_decay), if there is a decay. */
mica_array mc_decay(const mc_update *u);

#endif

/* What becomes of each part of a source, and the tensors that it is written as. */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "base/arena.h"
#include "base/status.h"
#include "convert/source.h"
#include "io/safetensors.h"

#include <mica/convert.h>

/* How a part is written. */
typedef struct mc_target {
    bool left_out;
    bool quantised;
    mica_quant quant;
    mica_dtype dtype; /* of the elements, or of affine scales */
} mc_target;

typedef struct mc_plan {
    mc_target *targets;        /* [parts] */
    mica_quant common;         /* of config.json; with bits 0 nothing is quantised */
    bool cast;                 /* config.json gets another dtype */
    mica_dtype dtype;          /* that one */
    bool unties;               /* config.json no longer says that the head is the embedding */
    int *bits;                 /* [parts] of a calibration; NULL: there is none */
    mc_weight_tensor *tensors; /* [count] to be written, in order of the parts */
    size_t count;
    mica_convert_result result; /* but for `fused` */
    mc_arena arena;
} mc_plan;

/* Plans a conversion. mc_plan_close is needed in any case.
 * device  of a calibration
 * errors  MICA_EINVAL options that are wrong or exclude each other; MICA_ENOMEM; those of
 *         mc_calibrate */
mica_status mc_plan_open(const mc_source *source, const mica_convert_options *options,
                         mica_device *device, mc_plan *plan);
void mc_plan_close(mc_plan *plan);

/* Writes config.json of the converted model into a folder. */
mica_status mc_plan_write_config(const mc_plan *plan, const mc_source *source, const char *folder);

/* Whether config.json says that the head is the embedding. */
bool mc_config_is_tied(mc_json config);

#endif

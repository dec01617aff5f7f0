/* Costs: how long a program will take on a device, and the choice of one.
 *
 * What a device can do is measured, when it is asked for, and kept: in the folder mica of
 * $XDG_CACHE_HOME, else of ~/.cache, unless the machine was busy. What was not measured has no
 * cost: nothing is ranked by invented numbers.
 *
 *     mica_device_calibrate(device, false);             // once for each machine: about a second
 *     mica_candidate candidates[] = {{.device = cpu}, {.device = gpu}};
 *     size_t pick;
 *     mica_status status = mica_pick_device(program, candidates, 2, NULL, &pick);
 *
 * The environment: with MICA_CALIBRATION=off nothing is read, measured or kept, so that no device
 * is measured; with MICA_CALIBRATION=refresh what was kept is measured anew. MICA_DEVICE=NAME makes
 * mica_pick_device take the device of that name.
 *
 * Threads: any thread may call these, several at once. */
#ifndef MICA_COST_H
#define MICA_COST_H

#include <mica/program.h>

MICA_BEGIN

/* ---- what a device was measured at ---- */

/** The number of rates, the name of the i-th ("matmul_f32_large"), and its unit: "op/s", operations
 *  on numbers a second; "B/s", bytes; or "s". NULL: past the end. */
MICA_API size_t mica_rate_count(void);
MICA_API const char *mica_rate_name(size_t i);
MICA_API const char *mica_rate_unit(size_t i);

/** Measures a device, or takes what was kept for this device, version, number of threads and set of
 *  kernels; and the CPU, if that runs ops for the device. A file that is broken, or of another
 *  device or version, counts as none.
 *
 *  anew    measure in any case.
 *  errors  MICA_EUNSUPPORTED MICA_CALIBRATION=off; MICA_EINVAL another value of it; those of the
 *          ops that are measured. The device is unmeasured then, or stays what it was. That the
 *          rates cannot be kept, in a folder that is read-only, is none: they hold for this
 *          device as long as it is open */
MICA_API mica_status mica_device_calibrate(mica_device *device, bool anew);

/** Whether the device was measured while the machine was busy: repeats did not agree, or other
 *  programs took the CPU. Such rates hold for this device as long as it is open, and are not kept;
 *  those that were kept before stay. */
MICA_API bool mica_device_rates_doubtful(mica_device *device);

/** The i-th rate of a device: as it was measured, or kept. 0: it was not measured; upload and
 *  download are 0 where the host sees the device's memory. */
MICA_API double mica_device_rate(mica_device *device, size_t i);

/* ---- what a program costs ---- */

/** What a run of a program takes. */
typedef struct mica_cost {
    size_t struct_bytes; /* see mica/api.h */
    bool bounded;        /* false: a loop without a bound counts as one round */
    double seconds;      /* 0: the device, or the CPU that runs some ops for it, is unmeasured */
    double operations;   /* on numbers: a product of [m, k] and [k, n] is 2 m k n */
    double bytes;        /* read and written, where steps do not run together */
    uint64_t steps;      /* ops that the device runs, those that run together as one; of a loop,
                            those of one round */
    uint64_t cpu_ops;    /* of them, what the CPU runs for the device, operands copied */
} mica_cost;

/** Estimates a run on a device, which need not be the program's own: the longer of what its
 *  operations and what its bytes take, for each step. A branch counts as the dearer one, a loop as
 *  its largest number of rounds.
 *
 *  errors  MICA_EUNSUPPORTED the device cannot run it, for an op that the text names, or there are
 *          symbols (mica_program_bind sets them); MICA_EINVAL NULL; MICA_ENOMEM */
MICA_API mica_status mica_program_get_cost(const mica_program *program, mica_device *device,
                                           mica_cost *cost);

/** The same program on another device: constants are copied there.
 *
 *  moved   receives it, owned by the caller; NULL after an error.
 *  errors  those of mica_program_encode and mica_program_decode */
MICA_API mica_status mica_program_to_device(const mica_program *program, mica_device *device,
                                            mica_program **moved);

/* ---- the choice ---- */

/** What is known of a candidate. The values are fixed: new ones are added at the end. */
typedef enum mica_candidate_state {
    MICA_CANDIDATE_UNKNOWN = 0,
    MICA_CANDIDATE_ESTIMATED = 1,  /* seconds is an estimate */
    MICA_CANDIDATE_TIMED = 2,      /* seconds was measured (mica_pick_options.args) */
    MICA_CANDIDATE_UNMEASURED = 3, /* it was not calibrated */
    MICA_CANDIDATE_UNABLE = 4      /* it is not there, or cannot run the program */
} mica_candidate_state;

/** A device to choose from. An element of an array: it gets no new members. */
typedef struct mica_candidate {
    mica_device *device;        /* NULL: one that could not be opened */
    double seconds;             /* receives what a run takes; 0: not known */
    mica_candidate_state state; /* receives what is known of it */
    char reason[116];           /* receives why, in words */
} mica_candidate;

/** Options of mica_pick_device; zero means the default. */
typedef struct mica_pick_options {
    size_t struct_bytes;    /* see mica/api.h */
    const mica_array *args; /* [parameters of the program] arguments for runs: the two that seem
                               fastest run the program three times, and the second is taken if it
                               takes less than 2/3 of the first's time. That is remembered, for
                               the program, this version and the two devices, until one is measured
                               anew. Borrowed; none is donated. NULL: no
                               runs */
} mica_pick_options;

/** Chooses the device on which the program costs least.
 *
 *  Left out are those that cannot run it, and those that are unmeasured unless all are. Of equals
 *  the first is taken.
 *
 *  candidates  [n]; receive what is known of each.
 *  options     NULL for the defaults. Borrowed.
 *  pick        receives the index of the chosen one.
 *  errors      MICA_EDEVICE none can run it, or $MICA_DEVICE is not among them; MICA_EUNSUPPORTED
 *              there are symbols; MICA_EINVAL NULL; MICA_ENOMEM; those of the runs */
MICA_API mica_status mica_pick_device(const mica_program *program, mica_candidate *candidates,
                                      size_t n, const mica_pick_options *options, size_t *pick);

MICA_END

#endif

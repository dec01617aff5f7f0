/* The rates of a device, as measured or kept. */
#ifndef COST_RATES_H
#define COST_RATES_H

#include "base/buffer.h"
#include "device/device.h"

typedef enum mc_rate {
#define RATE(ENUM, name, unit) MC_RATE_##ENUM,
#include "cost/rate_list.h"
    MC_RATE_COUNT
} mc_rate;

typedef struct mc_rates {
    double of[MC_RATE_COUNT]; /* 0: not measured */
} mc_rates;

typedef enum mc_calibration {
    MC_CALIBRATION_KEPT, /* measured when asked for, and kept */
    MC_CALIBRATION_OFF,
    MC_CALIBRATION_REFRESH /* what was kept does not count */
} mc_calibration;

/* What $MICA_CALIBRATION says. errors  MICA_EINVAL no such value */
mica_status mc_calibration_mode(mc_calibration *mode);

/* The device's rates; what was kept is read at the first call. false: it is unmeasured. */
bool mc_rates_get(mica_device *device, mc_rates *rates);

/* How quiet the machine was while it was measured. Zero begins. */
typedef struct mc_quiet {
    int probes, unsteady; /* measured, and of them those whose repeats do not agree */
    bool starved;         /* the thread that measured was kept from its CPU */
} mc_quiet;

/* Counts a probe. times: [n] of its repeats, sorted, n > 0. */
void mc_quiet_add(mc_quiet *q, const double *times, int n);
/* Compares the time that a thread, which never waits, ran with that which went by. */
void mc_quiet_compare(mc_quiet *q, uint64_t cpu_us, uint64_t wall_us);
/* Whether what was measured is the machine's own. */
bool mc_quiet_holds(const mc_quiet *q);

/* Measures. errors  those of programs */
typedef mica_status (*mc_measure_fn)(mica_device *device, mc_rates *rates, mc_quiet *quiet);
mica_status mc_rates_measure(mica_device *device, mc_rates *rates, mc_quiet *quiet);

/* mica_device_calibrate of the device alone, by `measure`. */
mica_status mc_calibrate_device(mica_device *device, mc_calibration mode, bool anew,
                                mc_measure_fn measure);

/* The path of a file in mica's cache folder, which is made.
 * errors  MICA_ENOENT no such folder is named; MICA_EIO, MICA_ENOMEM */
mica_status mc_cache_path(const char *name, mc_buffer *path);

#endif

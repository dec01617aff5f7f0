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

/* Measures. errors  those of programs */
mica_status mc_rates_measure(mica_device *device, mc_rates *rates);

/* The path of a file in mica's cache folder, which is made.
 * errors  MICA_ENOENT no such folder is named; MICA_EIO, MICA_ENOMEM */
mica_status mc_cache_path(const char *name, mc_buffer *path);

#endif

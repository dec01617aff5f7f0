#include "cost/rates.h"

#include <mica/cost.h>
#include <mica/version.h>

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/save.h"

/* Changes when the meaning of a rate does. */
enum { FILE_VERSION = 1 };

static const struct rate_row {
    const char *name, *unit;
} rows[] = {
#define RATE(ENUM, name, unit) {#name, unit},
#include "cost/rate_list.h"
};

size_t mica_rate_count(void) {
    return MC_RATE_COUNT;
}

const char *mica_rate_name(size_t i) {
    return i < MC_RATE_COUNT ? rows[i].name : NULL;
}

const char *mica_rate_unit(size_t i) {
    return i < MC_RATE_COUNT ? rows[i].unit : NULL;
}

mica_status mc_calibration_mode(mc_calibration *mode) {
    /* $MICA_CALIBRATION: off: devices are not measured; refresh: what was kept of earlier
     * measurements is not used */
    const char *word = getenv("MICA_CALIBRATION");
    *mode = MC_CALIBRATION_KEPT;
    if (!word || !*word) return MICA_OK;
    *mode = strcmp(word, "off") == 0 ? MC_CALIBRATION_OFF : MC_CALIBRATION_REFRESH;
    if (*mode == MC_CALIBRATION_OFF || strcmp(word, "refresh") == 0) return MICA_OK;
    return mc_fail(MICA_EINVAL, "MICA_CALIBRATION is \"%s\"; off and refresh are possible", word);
}

/* ---- the file ---- */

mica_status mc_cache_path(const char *name, mc_buffer *path) {
    /* $XDG_CACHE_HOME: the folder of caches (default: .cache in $HOME) */
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool made = true;
    if (cache && *cache)
        made = mc_buffer_printf(path, "%s/mica", cache);
    else if (home && *home)
        made = mc_buffer_printf(path, "%s/.cache/mica", home);
    else
        return mc_fail(MICA_ENOENT, "neither XDG_CACHE_HOME nor HOME is set");
    if (!made || !mc_buffer_cstr(path)) return mc_fail_nomem("a path");
    MC_TRY(mc_folder_make(path->data));
    if (!mc_buffer_printf(path, "/%s", name) || !mc_buffer_cstr(path))
        return mc_fail_nomem("a path");
    return MICA_OK;
}

static mica_device_info info_of(const mica_device *device) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(device, &info);
    return info;
}

/* "calibration-mlx_cpu-8.json": of a device and its number of threads. */
static mica_status path_of(const mica_device *device, mc_buffer *path) {
    char name[96];
    const mica_device_info info = info_of(device);
    int n = snprintf(name, sizeof name, "calibration-%s-%d", info.name, info.threads);
    if (n < 0 || (size_t)n >= sizeof name - sizeof ".json")
        return mc_fail(MICA_EINVAL, "the device's name is too long");
    for (int i = (int)sizeof "calibration-" - 1; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '-') name[i] = '_';
    memcpy(name + n, ".json", sizeof ".json");
    return mc_cache_path(name, path);
}

static bool has_text(mc_json object, const char *key, const char *want) {
    mc_str text;
    return mc_json_get_str(mc_json_find(object, key), &text) && mc_str_is(text, want);
}

static bool has_int(mc_json object, const char *key, int64_t want) {
    int64_t number;
    return mc_json_get_int(mc_json_find(object, key), &number) && number == want;
}

/* Upload and download are 0 where nothing is copied. */
static bool is_rate(mc_rate i, double value) {
    if (!isfinite(value) || value < 0) return false;
    return value > 0 || i == MC_RATE_UPLOAD || i == MC_RATE_DOWNLOAD;
}

static bool read_rates(const mica_device *device, mc_json file, mc_rates *rates) {
    mica_device_info info = info_of(device);
    mc_json values = mc_json_find(file, "rates");
    bool fits = has_int(file, "version", FILE_VERSION) && has_text(file, "device", info.name) &&
                has_text(file, "description", info.description) &&
                has_text(file, "kernels", info.architecture) &&
                has_text(file, "mica", mica_version()) && has_int(file, "threads", info.threads);
    for (size_t i = 0; fits && i < MC_RATE_COUNT; i++)
        fits = mc_json_get_float(mc_json_find(values, rows[i].name), &rates->of[i]) &&
               is_rate((mc_rate)i, rates->of[i]);
    return fits;
}

static bool load_rates(mica_device *device, mc_rates *rates) {
    mc_buffer path = {0};
    mc_json_doc *doc = NULL;
    bool found = path_of(device, &path) == MICA_OK &&
                 mc_json_load(path.data, MC_FILE_CALIBRATION, &doc) == MICA_OK &&
                 read_rates(device, mc_json_root(doc), rates);
    mc_json_close(&doc);
    mc_buffer_deinit(&path);
    return found;
}

static bool put_rates(mc_buffer *out, const mica_device *device, const mc_rates *rates) {
    mica_device_info info = info_of(device);
    bool ok =
        mc_buffer_printf(out, "{\n  \"version\": %d,\n  \"device\": ", FILE_VERSION) &&
        mc_json_put_text(out, info.name) && mc_buffer_add_text(out, ",\n  \"description\": ") &&
        mc_json_put_text(out, info.description) && mc_buffer_add_text(out, ",\n  \"kernels\": ") &&
        mc_json_put_text(out, info.architecture) && mc_buffer_add_text(out, ",\n  \"mica\": ") &&
        mc_json_put_text(out, mica_version()) &&
        mc_buffer_printf(out, ",\n  \"threads\": %d,\n  \"when\": %lld,\n  \"rates\": {",
                         info.threads, (long long)time(NULL));
    for (size_t i = 0; ok && i < MC_RATE_COUNT; i++)
        ok = mc_buffer_printf(out, "%s\n    \"%s\": ", i > 0 ? "," : "", rows[i].name) &&
             mc_json_put_number(out, rates->of[i]);
    return ok && mc_buffer_add_text(out, "\n  }\n}\n");
}

static mica_status save_rates(mica_device *device, const mc_rates *rates) {
    mc_buffer path = {0}, text = {0};
    mc_save save;
    mica_status status = path_of(device, &path);
    if (status == MICA_OK && !put_rates(&text, device, rates)) status = mc_fail_nomem("rates");
    if (status == MICA_OK) status = mc_save_open(&save, path.data);
    if (status == MICA_OK) {
        bool written = fwrite(text.data, 1, text.len, save.file) == text.len;
        status = mc_save_close(&save, written ? MICA_OK : mc_fail(MICA_EIO, "%s", path.data));
    }
    mc_buffer_deinit(&text);
    mc_buffer_deinit(&path);
    return status;
}

/* ---- how quiet the machine was ---- */

/* The median of a probe's repeats, by which it is rated, is at most so many times the fastest of
 * them on a quiet machine, for all probes but one in so many. */
#define STEADY 1.5
enum { FEW = 4 };

void mc_quiet_add(mc_quiet *q, const double *times, int n) {
    q->probes++;
    q->unsteady += times[n / 2] > STEADY * times[0];
}

/* Whoever shares its CPU with another program gets half of it: 3/4 tell them apart. */
void mc_quiet_compare(mc_quiet *q, uint64_t cpu_us, uint64_t wall_us) {
    q->starved = q->starved || (double)cpu_us < 0.75 * (double)wall_us;
}

bool mc_quiet_holds(const mc_quiet *q) {
    return !q->starved && q->unsteady * FEW <= q->probes;
}

/* ---- of an open device ---- */

/* Kept with the device. */
typedef struct device_rates {
    mc_device_part part;
    pthread_mutex_t measuring; /* taken before lock: of two threads, one measures */
    pthread_mutex_t lock;
    bool looked, known; /* the file was read; rates hold */
    bool doubtful;      /* measured while the machine was busy: not in the file */
    mc_rates rates;
} device_rates;

static void free_rates(mc_device_part *part) {
    device_rates *d = (device_rates *)part;
    pthread_mutex_destroy(&d->measuring);
    pthread_mutex_destroy(&d->lock);
    mc_free(d);
}

/* NULL: no memory. */
static device_rates *rates_of(mica_device *device) {
    mc_device_part *found = atomic_load_explicit(&device->rates, memory_order_acquire);
    if (found) return (device_rates *)found;
    device_rates *made = mc_calloc(1, sizeof *made);
    if (!made) return NULL;
    made->part.free = free_rates;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        mc_free(made);
        return NULL;
    }
    if (pthread_mutex_init(&made->measuring, NULL) != 0) {
        pthread_mutex_destroy(&made->lock);
        mc_free(made);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&device->rates, &found, &made->part)) return made;
    free_rates(&made->part); /* another thread was first */
    return (device_rates *)found;
}

bool mc_rates_get(mica_device *device, mc_rates *rates) {
    mc_calibration mode;
    device_rates *d = rates_of(device);
    if (!d || mc_calibration_mode(&mode) != MICA_OK || mode == MC_CALIBRATION_OFF) return false;
    pthread_mutex_lock(&d->lock);
    if (!d->known && !d->looked && mode == MC_CALIBRATION_KEPT)
        d->known = load_rates(device, &d->rates);
    d->looked = true;
    bool known = d->known;
    if (known) *rates = d->rates;
    pthread_mutex_unlock(&d->lock);
    return known;
}

static void set_rates(device_rates *d, const mc_rates *rates, bool quiet) {
    pthread_mutex_lock(&d->lock);
    d->rates = *rates;
    d->doubtful = !quiet;
    d->known = d->looked = true;
    pthread_mutex_unlock(&d->lock);
}

double mica_device_rate(mica_device *device, size_t i) {
    mc_rates rates;
    if (!device || i >= MC_RATE_COUNT || !mc_rates_get(device, &rates)) return 0;
    return rates.of[i];
}

mica_status mc_calibrate_device(mica_device *device, mc_calibration mode, bool anew,
                                mc_measure_fn measure) {
    mc_rates rates;
    mc_quiet quiet = {0};
    mica_status status = MICA_OK;
    device_rates *d = rates_of(device);
    if (!d) return mc_fail_nomem("rates");
    pthread_mutex_lock(&d->measuring);
    if (anew || mode != MC_CALIBRATION_KEPT || !mc_rates_get(device, &rates)) {
        status = measure(device, &rates, &quiet);
        if (status == MICA_OK) set_rates(d, &rates, mc_quiet_holds(&quiet));
        if (status == MICA_OK && mc_quiet_holds(&quiet))
            (void)save_rates(device, &rates); /* no folder: no error */
    }
    pthread_mutex_unlock(&d->measuring);
    return status;
}

bool mica_device_rates_doubtful(mica_device *device) {
    device_rates *d = device ? rates_of(device) : NULL;
    if (!d) return false;
    pthread_mutex_lock(&d->lock);
    bool doubtful = d->known && d->doubtful;
    pthread_mutex_unlock(&d->lock);
    return doubtful;
}

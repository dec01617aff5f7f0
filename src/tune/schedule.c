/* Learning rates by step. Source: the behaviour of mlx.optimizers' schedulers, and of mlx-lm, which
 * joins a warmup to them. */
#include "base/status.h"

#include <mica/tune.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static double constant(const double *a, size_t n, double step) {
    (void)n, (void)step;
    return a[0];
}

static double linear(const double *a, size_t n, double step) {
    (void)n;
    return a[0] + fmin(step, a[2]) * (a[1] - a[0]) / a[2];
}

static double cosine(const double *a, size_t n, double step) {
    double end = n > 2 ? a[2] : 0.0, part = fmin(step, a[1]) / a[1];
    return end + (a[0] - end) * 0.5 * (1.0 + cos(part * acos(-1.0)));
}

static double exponential(const double *a, size_t n, double step) {
    (void)n;
    return a[0] * pow(a[1], step);
}

static double steps(const double *a, size_t n, double step) {
    (void)n;
    return a[0] * pow(a[1], floor(step / a[2]));
}

/* The schedules. `positive`: the argument that must be above 0; 0: none. */
static const struct {
    const char *name;
    size_t min, max, positive;
    double (*rate)(const double *arguments, size_t n, double step);
} rows[] = {
    {"constant", 1, 1, 0, constant},   {"linear_schedule", 3, 3, 2, linear},
    {"cosine_decay", 2, 3, 1, cosine}, {"exponential_decay", 2, 2, 0, exponential},
    {"step_decay", 3, 3, 2, steps},
};

enum { ROWS = sizeof rows / sizeof *rows };

static mica_status find_row(const mica_schedule *schedule, size_t *row) {
    const char *name = schedule->name ? schedule->name : "constant";
    char known[256] = "";
    size_t len = 0;
    for (*row = 0; *row < ROWS; (*row)++)
        if (strcmp(rows[*row].name, name) == 0) return MICA_OK;
    for (size_t i = 0; i < ROWS && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, i ? ", %s" : "%s", rows[i].name);
    return mc_fail(MICA_EINVAL, "no schedule \"%s\"; there are %s", name, known);
}

mica_status mica_schedule_rate(const mica_schedule *schedule, int64_t step, double *rate) {
    size_t i;
    if (!schedule || !rate || step < 0) return mc_fail(MICA_EINVAL, "mica_schedule_rate: NULL");
    MC_TRY(find_row(schedule, &i));
    const double *a = schedule->arguments;
    size_t n = schedule->n_arguments;
    if (n < rows[i].min || n > rows[i].max)
        return mc_fail(MICA_EINVAL, "schedule %s takes %zu to %zu arguments, not %zu", rows[i].name,
                       rows[i].min, rows[i].max, n);
    for (size_t k = 0; k < n; k++)
        if (!isfinite(a[k]))
            return mc_fail(MICA_EINVAL, "schedule %s: argument %zu is no number", rows[i].name, k);
    if (rows[i].positive && !(a[rows[i].positive] > 0.0))
        return mc_fail(MICA_EINVAL, "schedule %s: argument %zu: want a number of steps above 0",
                       rows[i].name, rows[i].positive);
    const double line[] = {schedule->warmup_init, a[0], (double)schedule->warmup};
    bool warms = schedule->warmup > 0, warming = warms && step <= schedule->warmup;
    double behind = (double)(warms ? step - schedule->warmup - 1 : step);
    double found = warming ? linear(line, 3, (double)step) : rows[i].rate(a, n, behind);
    if (!isfinite((float)found))
        return mc_fail(MICA_EINVAL, "schedule %s: the rate of step %lld is %g", rows[i].name,
                       (long long)step, found);
    *rate = found;
    return MICA_OK;
}

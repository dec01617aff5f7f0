/* mica program cost: what a run takes on each device, estimated, and the choice of one. */
#include "program.h"

#include "print.h"
#include "report.h"

#include <stdlib.h>

static void print_candidate(const char *name, const mica_candidate *c,
                            const mica_program *program) {
    mica_cost cost = {.struct_bytes = sizeof cost};
    cli_print(stdout, "%-8s", name);
    if (c->seconds > 0) printf(" %.4g ms", 1e3 * c->seconds);
    if (c->device && mica_program_get_cost(program, c->device, &cost) == MICA_OK)
        printf(", %.4g operations, %.4g bytes, %llu steps", cost.operations, cost.bytes,
               (unsigned long long)cost.steps);
    cli_print(stdout, "%s%s\n", *c->reason ? ": " : "", c->reason);
}

/* The i-th device, or the one that was named. */
static const char *name_of(const cli_program_values *values, size_t i) {
    return values->device ? values->device : mica_device_name(i);
}

int cli_program_cost(const cli_program_values *values, mica_device *device, mica_program *program) {
    size_t n = values->device ? 1 : mica_device_count(), pick = 0;
    const mica_device_options options = {.struct_bytes = sizeof options,
                                         .threads = (int)values->threads};
    mica_candidate *candidates = calloc(n, sizeof *candidates);
    int code = CLI_DONE;
    (void)device;
    if (!candidates) return cli_fail("out of memory");
    for (size_t i = 0; i < n; i++) {
        if (mica_device_open(name_of(values, i), &options, &candidates[i].device) != MICA_OK)
            continue;
        mica_status calibrated = mica_device_calibrate(candidates[i].device, false);
        if (calibrated != MICA_OK) code = cli_fail_status(calibrated);
        if (mica_device_rates_doubtful(candidates[i].device))
            cli_print(stderr, "mica: %s: the machine is busy: its rates are not kept\n",
                      name_of(values, i));
    }
    mica_status status = mica_pick_device(program, candidates, n, NULL, &pick);
    for (size_t i = 0; i < n; i++)
        print_candidate(name_of(values, i), &candidates[i], program);
    if (status != MICA_OK)
        code = cli_fail_status(status);
    else
        cli_print(stdout, "the choice: %s\n", name_of(values, pick));
    for (size_t i = 0; i < n; i++)
        mica_device_close(&candidates[i].device);
    free(candidates);
    return code;
}

/* mica program run: values in, results out, and times. */
#include "program.h"

#include "interrupt.h"
#include "print.h"
#include "report.h"
#include "ui.h"

#include <stdlib.h>

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs n times behind one that is not counted, each in a scope of its own. */
static mica_status measure(const cli_program_inputs *in, mica_device *device, double *seconds,
                           int64_t n) {
    mica_status status = MICA_OK;
    size_t n_results = mica_program_result_count(in->program);
    mica_array *results = calloc(n_results + 1, sizeof *results);
    if (!results) return MICA_ENOMEM;
    for (int64_t i = -1; status == MICA_OK && i < n; i++) {
        mica_scope *s = NULL;
        double begin = cli_seconds();
        status = mica_scope_open(device, &s);
        if (status == MICA_OK)
            status = mica_executable_run(in->executable, in->inputs, in->n, s, results);
        if (i >= 0) seconds[i] = cli_seconds() - begin;
        mica_scope_close(&s);
    }
    free(results);
    return status;
}

static int print_times(const cli_program_inputs *in, mica_device *device, int64_t n) {
    double *seconds = calloc((size_t)n, sizeof *seconds);
    if (!seconds) return cli_fail("out of memory");
    mica_status status = measure(in, device, seconds, n);
    if (status == MICA_OK) {
        qsort(seconds, (size_t)n, sizeof *seconds, compare_seconds);
        double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
        fprintf(stderr, "%lld runs: median %.4g ms, min %.4g ms\n", (long long)n, 1e3 * median,
                1e3 * seconds[0]);
    }
    free(seconds);
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

static int run_once(const cli_program_values *values, const cli_program_inputs *in) {
    size_t n = mica_program_result_count(in->program);
    mica_array *results = calloc(n + 1, sizeof *results);
    if (!results) return cli_fail("out of memory");
    mica_status status = mica_executable_run(in->executable, in->inputs, in->n, in->scope, results);
    int code = status == MICA_OK
                   ? cli_program_write(in->program, results, in->scope, &values->output)
                   : cli_fail_status(status);
    free(results);
    return code;
}

static int print_report(mica_executable *executable) {
    char *text = NULL;
    mica_status status = mica_executable_report(executable, &text);
    if (status != MICA_OK) return cli_fail_status(status);
    cli_print(stderr, "%s", text);
    mica_free(text);
    return CLI_DONE;
}

/* What `in` needs is open. */
static int run_program(const cli_program_values *values, cli_program_inputs *in,
                       mica_device *device) {
    int code = cli_program_read(in, &values->param, true);
    if (code == CLI_DONE) code = cli_program_read(in, &values->input, false);
    if (code == CLI_DONE) code = cli_program_check(in);
    if (code == CLI_DONE) code = run_once(values, in);
    if (code == CLI_DONE && values->time > 0) code = print_times(in, device, values->time);
    if (code == CLI_DONE && values->report) code = print_report(in->executable);
    return code;
}

static mica_status open_inputs(const cli_program_values *values, mica_program *program,
                               mica_device *device, cli_program_inputs *in) {
    const mica_executable_options options = {.struct_bytes = sizeof options,
                                             .mode = (mica_mode)values->mode};
    size_t n = mica_program_param_count(program);
    *in = (cli_program_inputs){.program = program, .cast = values->cast};
    in->inputs = calloc(n + 1, sizeof *in->inputs);
    in->from = calloc(n + 1, sizeof *in->from);
    if (!in->inputs || !in->from) return MICA_ENOMEM;
    mica_status status = mica_executable_open(program, &options, &in->executable);
    return status == MICA_OK ? mica_scope_open(device, &in->scope) : status;
}

int cli_program_run(const cli_program_values *values, mica_device *device, mica_program *program) {
    cli_program_inputs in;
    mica_cancel *cancel = NULL;
    mica_status status = open_inputs(values, program, device, &in);
    if (status == MICA_OK) status = mica_cancel_open(&cancel);
    if (status == MICA_OK) {
        mica_scope_set_cancel(in.scope, cancel);
        cli_interrupt_watch_task(cancel);
    }
    int code = status == MICA_OK ? run_program(values, &in, device) : cli_fail_status(status);
    cli_interrupt_watch_task(NULL);
    mica_executable_close(&in.executable);
    mica_scope_close(&in.scope);
    mica_cancel_close(&cancel);
    free(in.inputs);
    free(in.from);
    return code;
}

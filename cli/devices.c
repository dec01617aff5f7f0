/* mica devices: lists the devices and engines that models can run on. */
#include "info.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

typedef struct devices_values {
    bool ops;
    bool calibrate;
} devices_values;

/* The rate of that name; 0: the device was not measured. */
static double find_rate(mica_device *device, const char *name) {
    for (size_t i = 0; i < mica_rate_count(); i++)
        if (strcmp(mica_rate_name(i), name) == 0) return mica_device_rate(device, i);
    return 0;
}

/* What plans of layers go by (mica_model_options.accelerator_layers), where it was measured. */
static void print_rates(mica_device *device) {
    double q4 = find_rate(device, "matvec_q4"), bf16 = find_rate(device, "matvec_bf16");
    double memory = find_rate(device, "memory_large");
    double up = find_rate(device, "upload"), down = find_rate(device, "download");
    if (memory <= 0) return;
    cli_print(stdout, "  reads        %.4g GB/s; weights of 4 bits %.4g, of bf16 %.4g\n",
              memory * 1e-9, q4 * 1e-9, bf16 * 1e-9);
    if (up > 0)
        cli_print(stdout, "  copies       %.4g GB/s to it, %.4g from it\n", up * 1e-9, down * 1e-9);
}

static void print_device(const char *name, bool chosen) {
    char memory[CLI_NUMBER];
    mica_device *device = NULL;
    if (mica_device_open(name, NULL, &device) != MICA_OK) {
        cli_print(stdout, "%s\n  unavailable  %s\n", name, mica_last_error());
        return;
    }
    mica_device_info info = cli_device_info(device);
    cli_print(stdout, "%s\n  description  %s\n", info.name, info.description);
    if (info.architecture[0]) cli_print(stdout, "  architecture %s\n", info.architecture);
    cli_print(stdout, "  threads      %d\n  memory       %s%s\n", info.threads,
              cli_format_bytes(info.memory_bytes, memory),
              info.unified_memory && strcmp(info.name, "cpu") != 0
                  ? ", unified: shared with the cpu"
                  : "");
    if (info.working_set_bytes)
        cli_print(stdout, "  working set  %s\n", cli_format_bytes(info.working_set_bytes, memory));
    if (info.max_array_bytes)
        cli_print(stdout, "  max array    %s\n", cli_format_bytes(info.max_array_bytes, memory));
    print_rates(device);
    if (chosen) puts("  chosen       unless --device names another");
    mica_device_close(&device);
}

static void print_devices(void) {
    mica_device *device = NULL;
    mica_device_info info = {.name = ""};
    if (mica_device_open(NULL, NULL, &device) == MICA_OK) info = cli_device_info(device);
    for (size_t i = 0; i < mica_device_count(); i++)
        print_device(mica_device_name(i), strcmp(info.name, mica_device_name(i)) == 0);
    mica_device_close(&device);
}

static void print_engines(void) {
    mica_engine_info info = {.struct_bytes = sizeof info}, first = info;
    (void)mica_engine_default(NULL, &first);
    for (size_t i = 0; mica_engine_list(i, &info); i++) {
        (void)mica_engine_get(info.name, &info);
        cli_print(stdout, "engine %s\n", info.name);
        if (*info.description) cli_print(stdout, "  description  %s\n", info.description);
        if (!info.available) cli_print(stdout, "  unavailable  %s\n", info.reason);
        if (info.available && strcmp(info.name, first.name) == 0)
            puts("  chosen       for models that it knows, unless --engine names another");
        else if (info.available && info.built_in)
            puts("  chosen       for models that no engine above knows");
    }
}

/* Prints a table: a row an op, a column a device. */
static void print_ops(void) {
    enum { NAME = 24, COLUMN = 12 };
    static const char *const words[] = {"-", "no work", "native", "decomposed", "on cpu"};
    size_t count = mica_device_count();
    mica_device **devices = calloc(count, sizeof(mica_device *));
    if (!devices) {
        cli_fail("out of memory");
        return;
    }
    cli_print(stdout, "%-*s", NAME, "op");
    for (size_t d = 0; d < count; d++) {
        (void)mica_device_open(mica_device_name(d), NULL, &devices[d]); /* else its column is "-" */
        cli_print(stdout, " %-*s", d + 1 < count ? COLUMN : 0, mica_device_name(d));
    }
    putchar('\n');
    for (size_t i = 0; i < mica_op_count(); i++) {
        cli_print(stdout, "%-*s", NAME, mica_op_name(i));
        for (size_t d = 0; d < count; d++)
            cli_print(stdout, " %-*s", d + 1 < count ? COLUMN : 0,
                      words[mica_device_op_support(devices[d], i)]);
        putchar('\n');
    }
    for (size_t d = 0; d < count; d++)
        mica_device_close(&devices[d]);
    free(devices);
}

/* Measures each device, and prints what it found: a row a rate, a column a device. */
static int calibrate(void) {
    enum { NAME = 20, COLUMN = 14 };
    int code = CLI_DONE;
    size_t count = mica_device_count();
    mica_device **devices = calloc(count, sizeof(mica_device *));
    if (!devices) return cli_fail("out of memory");
    cli_print(stdout, "%-*s %-6s", NAME, "rate", "unit");
    for (size_t d = 0; d < count; d++) {
        const char *name = mica_device_name(d);
        bool opened = mica_device_open(name, NULL, &devices[d]) == MICA_OK;
        if (opened && mica_device_calibrate(devices[d], true) != MICA_OK)
            code = cli_fail("%s: %s", name, mica_last_error());
        if (mica_device_rates_doubtful(devices[d]))
            cli_print(stderr, "mica: %s: the machine is busy: these rates are not kept\n", name);
        cli_print(stdout, " %*s", COLUMN, name);
    }
    putchar('\n');
    for (size_t i = 0; i < mica_rate_count(); i++) {
        cli_print(stdout, "%-*s %-6s", NAME, mica_rate_name(i), mica_rate_unit(i));
        for (size_t d = 0; d < count; d++) {
            double rate = mica_device_rate(devices[d], i);
            if (rate > 0)
                printf(" %*.3g", COLUMN, rate);
            else
                cli_print(stdout, " %*s", COLUMN, "-");
        }
        putchar('\n');
    }
    for (size_t d = 0; d < count; d++)
        mica_device_close(&devices[d]);
    free(devices);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    const devices_values *values = verb_values;
    (void)args, (void)count;
    if (values->ops) print_ops();
    if (values->calibrate) return calibrate();
    if (values->ops) return CLI_DONE;
    print_devices();
    print_engines();
    return CLI_DONE;
}

static const cli_option devices_options[] = {
    CLI_OPTION(FLAG, "ops", devices_values, ops, .help = "print how each device runs each op"),
    CLI_OPTION(FLAG, "calibrate", devices_values, calibrate,
               .help = "measure each device, a second or so, and print its rates"),
};

const cli_verb cli_verb_devices = {
    .synopsis = "",
    .details = "Lists each device, its instruction set, its threads, and the memory that mica may\n"
               "use; then each engine, which computes a model's tokens. Those that are not there\n"
               "say what they lack. --device NAME and --engine NAME make other verbs use one.\n"
               "\n"
               "--ops prints a table of all ops. native: the device has a kernel; decomposed: it\n"
               "computes the op by others; on cpu: the CPU does, and the operands are copied\n"
               "there and back; no work: nothing is moved. mica run --verbose counts what ran on\n"
               "the CPU.\n"
               "\n"
               "--calibrate measures how fast each device computes and moves data, prints it and\n"
               "keeps it in the folder mica of $XDG_CACHE_HOME, else of ~/.cache: programs choose\n"
               "a device by it (mica/cost.h), and the layers of a model that does not fit into a\n"
               "GPU's memory are divided by it. What was measured is listed.\n",
    .values_bytes = sizeof(devices_values),
    .groups = {{"Output", devices_options, CLI_COUNT(devices_options), 0}},
    .run = run,
};

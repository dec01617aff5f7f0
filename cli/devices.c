/* mica devices: lists the devices that models can run on. */
#include "info.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

static void print_device(const char *name) {
    char memory[CLI_NUMBER];
    mica_device *device = NULL;
    if (mica_device_open(name, NULL, &device) != MICA_OK) {
        printf("%s\n  unavailable  %s\n", name, mica_last_error());
        return;
    }
    mica_device_info info = cli_device_info(device);
    printf("%s\n  description  %s\n  kernels      %s\n  threads      %d\n  memory       %s\n",
           info.name, info.description, info.isa, info.threads,
           cli_format_bytes(info.memory_bytes, memory));
    mica_device_close(&device);
}

static int run(const void *values, char **args, int count) {
    (void)values, (void)args, (void)count;
    for (size_t i = 0; i < mica_device_count(); i++)
        print_device(mica_device_name(i));
    return CLI_DONE;
}

const cli_verb cli_verb_devices = {
    .synopsis = "",
    .details = "Lists each device, its instruction set, its threads, and the memory that mica may\n"
               "use.\n",
    .run = run,
};

#define _POSIX_C_SOURCE 200809L
#include "converting.h"
#include "print.h"
#include "program.h"
#include "report.h"
#include "ui.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIM_NAME = 256 };

/* "batch=1"; the name goes into a buffer. */
static int read_dim(const char *word, char name[DIM_NAME], mica_onnx_dim *dim) {
    const char *equals = strrchr(word, '=');
    char *end = NULL;
    if (!equals || equals == word || equals - word >= DIM_NAME)
        return cli_usage("convert", "--dim: '%s' is not NAME=N", word);
    errno = 0;
    long long length = strtoll(equals + 1, &end, 10);
    if (end == equals + 1 || *end || length < 0 || errno != 0)
        return cli_usage("convert", "--dim: '%s' is no length", equals + 1);
    snprintf(name, DIM_NAME, "%.*s", (int)(equals - word), word);
    *dim = (mica_onnx_dim){.name = name, .length = length};
    return CLI_DONE;
}

static void print_port(const char *kind, const mica_port *port) {
    cli_print(stdout, "  %s %s ", kind, port->name);
    cli_program_print_type(port->dtype, port->shape, port->ndim, stdout);
    putchar('\n');
}

static void print_program(const char *path, const mica_program *program) {
    char bytes[CLI_NUMBER];
    struct stat info;
    uint64_t size = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    cli_print(stdout, "%s: %s\n", path, cli_format_bytes(size, bytes));
    for (size_t i = 0; i < mica_program_param_count(program); i++) {
        mica_port port = cli_program_param(program, i);
        print_port("input ", &port);
    }
    for (size_t i = 0; i < mica_program_result_count(program); i++) {
        mica_port port = cli_program_result(program, i);
        print_port("result", &port);
    }
}

int cli_convert_onnx(const char *from, const char *to, const cli_texts *dims) {
    static char names[CLI_TEXTS_MAX][DIM_NAME];
    mica_onnx_dim lengths[CLI_TEXTS_MAX];
    mica_device *device = NULL;
    mica_program *program = NULL;
    const mica_onnx_options options = {
        .struct_bytes = sizeof options, .dims = lengths, .n_dims = dims->count};
    for (size_t i = 0; i < dims->count; i++) {
        int code = read_dim(dims->values[i], names[i], &lengths[i]);
        if (code != CLI_DONE) return code;
    }
    if (access(to, F_OK) == 0)
        return cli_fail("%s exists: name a new file, or remove this one", to);
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (status == MICA_OK) status = mica_onnx_load(device, from, &options, &program);
    if (status == MICA_OK) status = mica_program_save(program, to, NULL);
    if (status == MICA_OK) print_program(to, program);
    int code = status == MICA_OK ? CLI_DONE : cli_fail_status(status);
    mica_program_close(&program);
    mica_device_close(&device);
    return code;
}

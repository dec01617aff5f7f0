#define _POSIX_C_SOURCE 200809L
#include "converting.h"
#include "print.h"
#include "program.h"
#include "report.h"
#include "ui.h"

#include <sys/stat.h>
#include <unistd.h>

static void print_port(const char *kind, const mica_port *port) {
    cli_print(stdout, "  %s %s ", kind, port->name);
    cli_program_print_port(port, stdout);
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

int cli_convert_onnx(const char *from, const char *to, const cli_texts *dims,
                     const cli_texts *inputs) {
    cli_onnx onnx;
    mica_device *device = NULL;
    mica_program *program = NULL;
    if (access(to, F_OK) == 0)
        return cli_fail("%s exists: name a new file, or remove this one", to);
    mica_status status = mica_device_open("cpu", NULL, &device);
    int code = status == MICA_OK ? CLI_DONE : cli_fail_status(status);
    if (code == CLI_DONE) code = cli_onnx_open(&onnx, "convert", device, dims, inputs);
    if (code == CLI_DONE) {
        status = mica_onnx_load(device, from, &onnx.options, &program);
        if (status == MICA_OK) cli_onnx_tell(&onnx, from);
        if (status == MICA_OK) status = mica_program_save(program, to, NULL);
        if (status == MICA_OK) print_program(to, program);
        if (status != MICA_OK) code = cli_fail_status(status);
        cli_onnx_close(&onnx);
    }
    mica_program_close(&program);
    mica_device_close(&device);
    return code;
}

/* What options say of an ONNX file: lengths and inputs that are fixed. */
#define _POSIX_C_SOURCE 200809L
#include "print.h"
#include "program.h"

#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "NAME=VALUE": the name goes into a buffer.  returns  the value; NULL: it is no such word */
static const char *split(const char *word, char name[CLI_ONNX_NAME], bool last) {
    const char *equals = last ? strrchr(word, '=') : strchr(word, '=');
    if (!equals || equals == word || equals - word >= CLI_ONNX_NAME) return NULL;
    snprintf(name, CLI_ONNX_NAME, "%.*s", (int)(equals - word), word);
    return equals + 1;
}

int cli_read_length(const char *verb, const char *word, char name[CLI_ONNX_NAME], int64_t *length) {
    char *end = NULL;
    const char *value = split(word, name, true);
    if (!value) return cli_usage(verb, "--dim: '%s' is not NAME=N", word);
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || number < 0 || errno != 0)
        return cli_usage(verb, "--dim: '%s' is no length", value);
    *length = number;
    return CLI_DONE;
}

/* The only array of a file, or the one of the input's name. */
static int read_array(cli_onnx *onnx, const char *path, const char *name, mica_array *x) {
    mica_array_file *file = NULL;
    size_t k = 0;
    mica_status status = mica_array_file_open(path, &file);
    if (status != MICA_OK) return cli_fail_status(status);
    int code = CLI_DONE;
    if (mica_array_file_count(file) != 1 && !mica_array_file_find(file, name, &k))
        code = cli_fail("%s: there is no array '%s'", path, name);
    if (code == CLI_DONE) {
        *x = mica_array_file_load(file, k, onnx->scope);
        status = mica_eval(onnx->scope, *x);
        if (status != MICA_OK) code = cli_fail_status(status);
    }
    mica_array_file_close(&file);
    return code;
}

/* NAME=FILE or NAME=NUMBER. */
static int read_input(cli_onnx *onnx, const char *verb, const char *word, char name[CLI_ONNX_NAME],
                      mica_named_array *input) {
    char *end = NULL;
    const char *value = split(word, name, false);
    if (!value) return cli_usage(verb, "--input: '%s' is not NAME=VALUE", word);
    double number = strtod(value, &end);
    input->name = name;
    if (end == value || *end || access(value, F_OK) == 0)
        return read_array(onnx, value, name, &input->array);
    errno = 0;
    long long whole = strtoll(value, &end, 10);
    input->array = *end || errno != 0 ? mica_f32(onnx->scope, (float)number)
                                      : mica_from_data(onnx->scope, &whole, MICA_I64, NULL, 0);
    mica_status status = mica_eval(onnx->scope, input->array);
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

int cli_onnx_open(cli_onnx *onnx, const char *verb, mica_device *device, const cli_texts *dims,
                  const cli_texts *inputs) {
    *onnx = (cli_onnx){.options = {.struct_bytes = sizeof onnx->options,
                                   .dims = onnx->dims,
                                   .n_dims = dims->count,
                                   .inputs = onnx->inputs,
                                   .n_inputs = inputs->count,
                                   .notes = &onnx->notes}};
    int code = CLI_DONE;
    onnx->names = calloc(dims->count + inputs->count + 1, sizeof *onnx->names);
    mica_status status = mica_scope_open(device, &onnx->scope);
    if (!onnx->names) code = cli_fail("out of memory");
    if (status != MICA_OK) code = cli_fail_status(status);
    for (size_t i = 0; code == CLI_DONE && i < dims->count; i++) {
        onnx->dims[i].name = onnx->names[i];
        code = cli_read_length(verb, dims->values[i], onnx->names[i], &onnx->dims[i].length);
    }
    for (size_t i = 0; code == CLI_DONE && i < inputs->count; i++)
        code = read_input(onnx, verb, inputs->values[i], onnx->names[dims->count + i],
                          &onnx->inputs[i]);
    if (code != CLI_DONE) cli_onnx_close(onnx);
    return code;
}

void cli_onnx_tell(const cli_onnx *onnx, const char *path) {
    const char *line = onnx->notes;
    for (size_t n; line && *line; line += n + 1) { /* "note ...", to the end of the line */
        n = strcspn(line, "\n");
        cli_print(stderr, "mica: %s: %.*s\n", path, (int)n - 5, line + 5);
    }
}

void cli_onnx_close(cli_onnx *onnx) {
    mica_free(onnx->notes);
    onnx->notes = NULL;
    mica_scope_close(&onnx->scope);
    free(onnx->names);
    onnx->names = NULL;
}

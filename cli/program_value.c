/* mica program run: arrays of files as inputs, results as files and as text. */
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include "path.h"
#include "print.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PRINTED = 8, STDIN_PATH = 32, WORD = 4096 };

/* ---- files ---- */

/* What comes on stdin, in a file without a name, for files are mapped.
 *
 * path  receives "/dev/fd/N"; the descriptor stays open until the program ends */
static int keep_stdin(char path[STDIN_PATH]) {
    char block[1 << 16];
    size_t n;
    FILE *file = tmpfile();
    if (!file) return cli_fail("no temporary file can be made for what comes on stdin");
    while ((n = fread(block, 1, sizeof block, stdin)) > 0)
        if (fwrite(block, 1, n, file) != n) break;
    if (ferror(stdin) || ferror(file) || fflush(file) != 0)
        return cli_fail("what comes on stdin cannot be kept");
    snprintf(path, STDIN_PATH, "/dev/fd/%d", fileno(file));
    return CLI_DONE;
}

static int open_file(const char *path, mica_array_file **file) {
    char kept[STDIN_PATH];
    if (strcmp(path, "-") == 0) {
        int code = keep_stdin(kept);
        if (code != CLI_DONE) return code;
        path = kept;
    }
    mica_status status = mica_array_file_open(path, file);
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

/* ---- parameters ---- */

typedef mica_port (*port_fn)(const mica_program *program, size_t i);

/* Of n parameters or results the one that a word "NAME=VALUE" begins with; the longest name, for
 * names may hold "=".
 * returns  n where there is none */
static size_t find_port(const mica_program *program, port_fn port, size_t n, const char *word,
                        size_t *value_at) {
    size_t best = n, longest = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = port(program, i).name;
        size_t length = strlen(name);
        if (strncmp(word, name, length) != 0 || word[length] != '=') continue;
        if (best < n && length < longest) continue;
        best = i;
        longest = length;
    }
    *value_at = longest + 1;
    return best;
}

/* Reports that the program has no parameter that a word "NAME=..." names. */
static int fail_name(const mica_program *program, const char *word) {
    size_t n = mica_program_param_count(program);
    char name[WORD];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char **names = calloc(n + 1, sizeof *names);
    if (!names) return cli_fail("out of memory");
    for (size_t i = 0; i < n; i++)
        names[i] = cli_program_param(program, i).name;
    const char *nearest = cli_nearest(name, names, n);
    if (nearest)
        cli_fail("there is no input '%s'; the nearest is '%s'", name, nearest);
    else
        cli_fail("there is no input '%s'; mica program show lists them", name);
    free(names);
    return CLI_FAILED;
}

static int take_input(cli_program_inputs *in, size_t i, const char *word) {
    if (in->from[i])
        return cli_fail("%s is given twice: by %s and %s", cli_program_param(in->program, i).name,
                        in->from[i], word);
    in->from[i] = word;
    return CLI_DONE;
}

/* Checks the shape of array k before it is loaded: a file may hold a thousandth of it. */
static int check_shape(const mica_port *port, const mica_array_file *file, size_t k) {
    int64_t shape[MICA_MAX_NDIM];
    int ndim = 0;
    bool fits = mica_array_file_shape(file, k, shape, &ndim) && ndim == port->ndim;
    for (int i = 0; fits && i < ndim; i++)
        fits = port->shape[i] < 0 || port->shape[i] == shape[i];
    if (fits) return CLI_DONE;
    cli_text want = {.len = 0}, given = {.len = 0};
    int code = CLI_FAILED;
    if (cli_program_put_shape(&want, port->shape, port->ndim, port->symbols) &&
        cli_program_put_shape(&given, shape, ndim, NULL))
        code = cli_fail("input %s has the shape %s, array %s of the file %s", port->name, want.data,
                        mica_array_file_name(file, k), given.data);
    free(want.data);
    free(given.data);
    return code;
}

/* Gives array k of a file to parameter i. */
static int give(cli_program_inputs *in, size_t i, const mica_array_file *file, size_t k,
                const char *word, bool set) {
    mica_port port = cli_program_param(in->program, i);
    int code = check_shape(&port, file, k);
    if (code == CLI_DONE) code = take_input(in, i, word);
    if (code != CLI_DONE) return code;
    mica_array x = mica_array_file_load(file, k, in->scope);
    if (!mica_valid(x)) return cli_fail_status(mica_scope_status(in->scope));
    if (in->cast) x = mica_astype(in->scope, x, port.dtype);
    const mica_input input = {.name = port.name, .array = x};
    mica_status status = mica_eval(in->scope, x);
    if (status == MICA_OK && set) status = mica_executable_set(in->executable, &input);
    if (!set) in->inputs[in->n++] = input;
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

/* ---- words ---- */

/* The array of a file that is meant for a parameter: that of ":ARRAY", of the parameter's name, or
 * the only one. */
static int find_array(const mica_array_file *file, const char *path, const char *array,
                      const char *name, size_t *k) {
    size_t n = mica_array_file_count(file);
    *k = 0;
    if (array && mica_array_file_find(file, array, k)) return CLI_DONE;
    if (array) return cli_fail("%s: there is no array '%s'", path, array);
    if (n == 1 || mica_array_file_find(file, name, k)) return CLI_DONE;
    return cli_fail("%s: there are %zu arrays, and none is called '%s': say which by %s=%s:ARRAY",
                    path, n, name, name, path);
}

/* NAME=FILE or NAME=FILE:ARRAY; value is what follows the "=". */
static int read_named(cli_program_inputs *in, size_t i, const char *word, const char *value,
                      bool set) {
    char path[WORD];
    mica_array_file *file = NULL;
    const char *colon = strrchr(value, ':'), *array = NULL;
    size_t k = 0;
    if (strlen(value) >= sizeof path) return cli_fail("the name of a file is too long");
    strcpy(path, value);
    if (colon && access(value, F_OK) != 0) {
        path[colon - value] = '\0';
        array = colon + 1;
    }
    int code = open_file(path, &file);
    if (code == CLI_DONE)
        code = find_array(file, path, array, cli_program_param(in->program, i).name, &k);
    if (code == CLI_DONE) code = give(in, i, file, k, word, set);
    mica_array_file_close(&file);
    return code;
}

/* FILE: each of its arrays that has the name of a parameter; of a file of one array, the only
 * parameter that has no value yet. */
static int read_file(cli_program_inputs *in, const char *word, bool set) {
    size_t n = mica_program_param_count(in->program), found = 0, open = 0, last = 0, k = 0;
    mica_array_file *file = NULL;
    int code = open_file(word, &file);
    for (size_t i = 0; code == CLI_DONE && i < n; i++) {
        bool there = mica_array_file_find(file, cli_program_param(in->program, i).name, &k);
        if (!in->from[i]) open++, last = i;
        if (!there) continue;
        found++;
        code = give(in, i, file, k, word, set);
    }
    if (code == CLI_DONE && found == 0 && open == 1 && mica_array_file_count(file) == 1)
        code = give(in, last, file, 0, word, set);
    else if (code == CLI_DONE && found == 0)
        code = cli_fail("%s: no array has the name of an input: say NAME=FILE:ARRAY", word);
    mica_array_file_close(&file);
    return code;
}

/* NAME=FILE, NAME=FILE:ARRAY or NAME=NUMBER. */
static int read_value(cli_program_inputs *in, size_t i, const char *word, const char *value,
                      bool set) {
    char *end = NULL;
    double number = strtod(value, &end);
    if (!*value || *end || access(value, F_OK) == 0) return read_named(in, i, word, value, set);
    int code = take_input(in, i, word);
    if (code != CLI_DONE) return code;
    mica_port port = cli_program_param(in->program, i);
    for (int k = 0; port.symbols && k < port.ndim; k++)
        if (port.symbols[k])
            return cli_fail(
                "%s: a number is for inputs of known lengths: give %s a number by --dim "
                "%s=N",
                port.name, port.symbols[k], port.symbols[k]);
    mica_status status = mica_executable_fill(in->executable, port.name, number);
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

/* Words with a name first: a file of one array is for what then has no value. */
int cli_program_read(cli_program_inputs *in, const cli_texts *words, bool set) {
    int code = CLI_DONE;
    for (int named = 1; named >= 0; named--)
        for (size_t i = 0; code == CLI_DONE && i < words->count; i++) {
            const char *word = words->values[i];
            size_t at, n = mica_program_param_count(in->program);
            size_t param = find_port(in->program, cli_program_param, n, word, &at);
            bool found = param < n;
            if ((found || strchr(word, '=')) != named) continue;
            if (found)
                code = read_value(in, param, word, word + at, set);
            else
                code = named ? fail_name(in->program, word) : read_file(in, word, set);
        }
    return code;
}

int cli_program_check(const cli_program_inputs *in) {
    size_t missing = 0, n = mica_program_param_count(in->program);
    for (size_t i = 0; i < n; i++)
        missing += !in->from[i];
    if (missing == 0) return CLI_DONE;
    cli_fail("%zu of %zu inputs have no value:", missing, n);
    for (size_t i = 0; i < n; i++) {
        mica_port port = cli_program_param(in->program, i);
        if (in->from[i]) continue;
        cli_print(stderr, "  %s ", port.name);
        cli_program_print_port(&port, stderr);
        putc('\n', stderr);
    }
    cli_hint("Give each by --input NAME=FILE, or --input NAME=NUMBER.");
    return CLI_FAILED;
}

/* ---- results ---- */

/* Prints the first elements. Numbers are printed from f32 and i64, which hold all kinds. */
static mica_status print_elements(mica_array x, mica_scope *s) {
    mica_dtype dtype = mica_array_dtype(x);
    bool real = mica_dtype_is_float(dtype) || dtype == MICA_C64 || dtype == MICA_F64;
    float reals[PRINTED];
    int64_t integers[PRINTED], size = mica_array_size(x), n = size < PRINTED ? size : PRINTED;
    mica_array y = mica_slice_axis(s, mica_reshape(s, x, (int64_t[]){-1}, 1), 0, 0, n);
    y = mica_astype(s, y, real ? MICA_F32 : MICA_I64);
    mica_status status = real ? mica_read(y, reals, (size_t)n * sizeof *reals)
                              : mica_read(y, integers, (size_t)n * sizeof *integers);
    for (int64_t i = 0; status == MICA_OK && i < n; i++)
        if (real)
            printf(" %.6g", (double)reals[i]);
        else
            printf(" %lld", (long long)integers[i]);
    if (status == MICA_OK) cli_print(stdout, "%s\n", n < size ? " ..." : "");
    return status;
}

static int print_results(const mica_program *program, const mica_array *results, mica_scope *s) {
    for (size_t i = 0; i < mica_program_result_count(program); i++) {
        mica_array x = results[i];
        cli_print(stdout, "%s ", cli_program_result(program, i).name);
        cli_program_print_type(mica_array_dtype(x), mica_array_shape(x), mica_array_ndim(x),
                               stdout);
        putchar(':');
        if (mica_array_size(x) == 0) {
            putchar('\n');
            continue;
        }
        mica_status status = print_elements(x, s);
        if (status != MICA_OK) return cli_fail_status(status);
    }
    return CLI_DONE;
}

/* All results into a file of several arrays. */
static int write_all(const mica_program *program, const mica_array *results, const char *path) {
    size_t n = mica_program_result_count(program);
    mica_named_array *named = calloc(n + 1, sizeof *named);
    if (!named) return cli_fail("out of memory");
    for (size_t i = 0; i < n; i++)
        named[i] = (mica_named_array){cli_program_result(program, i).name, results[i]};
    mica_status status = cli_path_ends(path, ".npz")
                             ? mica_save_npz(path, named, n, false)
                             : mica_save_safetensors(path, named, n, NULL, 0);
    free(named);
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

static int write_one(mica_array x, const char *path) {
    mica_status status = mica_save_npy(cli_output_path(path), x);
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

/* FILE, or NAME=FILE: the longest name of a result that the word begins with. */
static int write_word(const mica_program *program, const mica_array *results, const char *word) {
    size_t n = mica_program_result_count(program), value_at;
    size_t found = find_port(program, cli_program_result, n, word, &value_at);
    if (found < n) return write_one(results[found], word + value_at);
    if (cli_path_ends(word, ".npz") || cli_path_ends(word, ".safetensors"))
        return write_all(program, results, word);
    if (n == 1 && !strchr(word, '=')) return write_one(results[0], word);
    if (strchr(word, '='))
        return cli_fail("there is no result '%.*s'; mica program show lists them",
                        (int)strcspn(word, "="), word);
    return cli_fail("%s: there are %zu results: say NAME=%s, or write a file that ends in .npz or "
                    ".safetensors",
                    word, n, word);
}

int cli_program_write(const mica_program *program, const mica_array *results, mica_scope *s,
                      const cli_texts *words) {
    int code = words->count > 0 ? CLI_DONE : print_results(program, results, s);
    for (size_t i = 0; code == CLI_DONE && i < words->count; i++)
        code = write_word(program, results, words->values[i]);
    return code;
}

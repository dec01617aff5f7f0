/* mica program: shows, runs and estimates programs that were saved to files. */
#include "program.h"

#include "path.h"
#include "print.h"
#include "report.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

bool cli_program_put_shape(cli_text *text, const int64_t *shape, int ndim,
                           const char *const *symbols) {
    bool done = cli_text_append(text, "[", 1);
    for (int i = 0; i < ndim && done; i++) {
        if (i > 0) done = cli_text_append(text, ",", 1);
        if (done && symbols && symbols[i])
            done = cli_text_append(text, symbols[i], strlen(symbols[i]));
        else if (done)
            done = cli_text_printf(text, "%lld", (long long)shape[i]);
    }
    return done && cli_text_append(text, "]", 1);
}

void cli_program_print_type(mica_dtype dtype, const int64_t *shape, int ndim, FILE *out) {
    cli_print(out, "%s[", mica_dtype_name(dtype));
    for (int i = 0; i < ndim; i++)
        cli_print(out, i > 0 ? ",%lld" : "%lld", (long long)shape[i]);
    putc(']', out);
}

void cli_program_print_port(const mica_port *port, FILE *out) {
    cli_print(out, "%s[", mica_dtype_name(port->dtype));
    for (int i = 0; i < port->ndim; i++) {
        const char *symbol = port->symbols ? port->symbols[i] : NULL;
        if (i > 0) putc(',', out);
        if (symbol || port->shape[i] < 0)
            cli_print(out, "%s", symbol ? symbol : "?");
        else
            cli_print(out, "%lld", (long long)port->shape[i]);
    }
    putc(']', out);
}

static int save(const char *text, const char *path) {
    mica_status status = mica_file_save(cli_output_path(path), text, strlen(text));
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

static int show(const cli_program_values *values, mica_device *device, mica_program *program) {
    (void)device;
    char *text = NULL;
    int code = CLI_DONE;
    const char *path = values->output.count > 0 ? values->output.values[0] : NULL;
    if (values->output.count > 1)
        return cli_usage("program", "show writes one file, and --output names two");
    mica_status status = mica_program_print(program, &text);
    if (status != MICA_OK) return cli_fail_status(status);
    bool picture = path && (cli_path_ends(path, ".svg") || cli_path_ends(path, ".png") ||
                            cli_path_ends(path, ".pdf"));
    if (picture)
        code = cli_program_draw(text, path);
    else if (path && (values->dot || cli_path_ends(path, ".dot")))
        code = cli_program_save_dot(text, path);
    else if (path)
        code = save(text, path);
    else if (values->dot)
        cli_program_dot(text, stdout);
    else
        cli_print(stdout, "%s", text);
    mica_free(text);
    return code;
}

typedef int (*action_fn)(const cli_program_values *values, mica_device *device,
                         mica_program *program);

static action_fn find_action(const char *word) {
    if (strcmp(word, "show") == 0) return show;
    if (strcmp(word, "run") == 0) return cli_program_run;
    if (strcmp(word, "cost") == 0) return cli_program_cost;
    return NULL;
}

/* A program for the lengths that --dim says, of all its symbols. */
static int bind(const cli_texts *dims, mica_program **program) {
    static char names[CLI_TEXTS_MAX][CLI_ONNX_NAME];
    mica_length lengths[CLI_TEXTS_MAX];
    mica_program *bound = NULL;
    int code = CLI_DONE;
    for (size_t i = 0; code == CLI_DONE && i < dims->count; i++) {
        lengths[i].name = names[i];
        code = cli_read_length("program", dims->values[i], names[i], &lengths[i].length);
    }
    if (code != CLI_DONE || dims->count == 0) return code;
    mica_status status = mica_program_bind(*program, lengths, dims->count, &bound);
    if (status != MICA_OK) return cli_fail_status(status);
    mica_program_close(program);
    *program = bound;
    return CLI_DONE;
}

/* An ONNX file: a program, or for show without a file or a graph the text of what it asks for; with
 * inputs that --input fixes, unless they are what a run gets. */
static int run_onnx(const cli_program_values *values, const char *path, mica_device *device,
                    action_fn action) {
    cli_onnx onnx;
    mica_program *program = NULL;
    char *text = NULL;
    const cli_texts none = {.count = 0};
    bool tells = action == show && values->output.count == 0 && !values->dot;
    int code = cli_onnx_open(&onnx, "program", device, &values->dims,
                             action == cli_program_run ? &none : &values->input);
    if (code != CLI_DONE) return code;
    mica_status status = tells ? mica_onnx_print(device, path, &onnx.options, &text)
                               : mica_onnx_load(device, path, &onnx.options, &program);
    if (status == MICA_OK && !text) cli_onnx_tell(&onnx, path);
    if (status != MICA_OK)
        code = cli_fail_status(status);
    else if (text)
        cli_print(stdout, "%s", text);
    else
        code = action(values, device, program);
    mica_free(text);
    mica_program_close(&program);
    cli_onnx_close(&onnx);
    return code;
}

/* Loads a program, and the constants that its file names from another file. */
static mica_status load(mica_device *device, const char *path, const char *constants,
                        mica_program **program) {
    mica_program_file_options options = {.struct_bytes = sizeof options};
    mica_scope *s = NULL;
    mica_named_array *arrays = NULL;
    mica_status status = mica_scope_open(device, &s);
    if (status == MICA_OK && constants)
        status = mica_load_safetensors(constants, s, &arrays, &options.n_constants);
    options.constants = arrays;
    if (status == MICA_OK) status = mica_program_load(device, path, &options, program);
    mica_free(arrays);
    mica_scope_close(&s);
    return status;
}

static int run(const void *verb_values, char **args, int count) {
    const cli_program_values *values = verb_values;
    mica_device *device = NULL;
    mica_program *program = NULL;
    action_fn action = count > 0 ? find_action(args[0]) : NULL;
    if (count > 0 && !action)
        return cli_usage("program", "'%s' is none of show, run and cost", args[0]);
    if (count < 2) return cli_usage("program", "say show, run or cost, and name a program's file");
    const mica_device_options options = {.struct_bytes = sizeof options,
                                         .threads = (int)values->threads};
    mica_status status = mica_device_open(values->device, &options, &device);
    int code = CLI_DONE;
    if (status == MICA_OK && cli_path_ends(args[1], ".onnx")) {
        code = run_onnx(values, args[1], device, action);
        mica_device_close(&device);
        return code;
    }
    if (status == MICA_OK && action != cli_program_run && values->input.count > 0) {
        mica_device_close(&device);
        return cli_usage("program", "%s takes --input for ONNX files alone", args[0]);
    }
    if (status == MICA_OK) status = load(device, args[1], values->constants, &program);
    if (status != MICA_OK) code = cli_fail_status(status);
    if (code == CLI_DONE) code = bind(&values->dims, &program);
    if (code == CLI_DONE) code = action(values, device, program);
    mica_program_close(&program);
    mica_device_close(&device);
    return code;
}

static const cli_option show_options[] = {
    CLI_OPTION(
        TEXTS, "output", cli_program_values, output, .letter = 'o', .placeholder = "[NAME=]FILE",
        .no_variable = true,
        .help = "show: write FILE, a picture where it ends in .svg, .png or .pdf. run: write the "
                "result NAME to FILE.npy, or all to FILE.npz or FILE.safetensors; -: stdout"),
    CLI_OPTION(FLAG, "dot", cli_program_values, dot, .no_variable = true,
               .help = "show: as a graph in Graphviz's language"),
};

static const cli_option run_options[] = {
    CLI_OPTION(TEXTS, "input", cli_program_values, input, .placeholder = "[NAME=]FILE",
               .no_variable = true,
               .help = "what a run gets: NAME=FILE, NAME=FILE:ARRAY, NAME=NUMBER for all elements; "
                       "FILE alone: each of its arrays whose name is an input; -: npy on stdin"),
    CLI_OPTION(TEXTS, "param", cli_program_values, param, .placeholder = "[NAME=]FILE",
               .no_variable = true, .help = "the same, set once for all runs: weights"),
    CLI_OPTION(FLAG, "cast", cli_program_values, cast, .no_variable = true,
               .help = "convert arrays of other dtypes"),
    CLI_OPTION(INT, "time", cli_program_values, time, .placeholder = "N", .max = 1e6,
               .no_variable = true,
               .help = "run once more, then N times, and print the median and the shortest time"),
    CLI_OPTION(FLAG, "report", cli_program_values, report, .no_variable = true,
               .help = "print how each op runs, on stderr"),
};

static const cli_option device_options[] = {
    CLI_OPTION(TEXTS, "dim", cli_program_values, dims, .placeholder = "NAME=N", .no_variable = true,
               .help = "fix a length: of an ONNX file any, of a program all that are symbols"),
    CLI_OPTION(FILE, "constants", cli_program_values, constants, .placeholder = "FILE",
               .no_variable = true,
               .help = "safetensors with the constants that the program's file has by name alone"),
    CLI_OPTION(TEXT, "device", cli_program_values, device, .placeholder = "NAME",
               .help = "the device that computes (mica devices); the best one"),
    CLI_OPTION(CHOICE, "mode", cli_program_values, mode, .placeholder = "MODE",
               .initial = "default", .choices = "default lazy eager compiled", .own_variable = true,
               .help = "how it is run; eager: op by op, so that an error names its op"),
    CLI_OPTION(INT, "threads", cli_program_values, threads, .letter = 't', .placeholder = "N",
               .initial = "0", .max = 4096, .help = "number of threads; 0: one per core"),
};

const cli_verb cli_verb_program = {
    .synopsis = "show|run|cost FILE",
    .details =
        "A program is a network in one file: mica convert makes it of an ONNX file, and\n"
        "mica_program_save of what C code records (mica/program.h). FILE may be an ONNX file,\n"
        "too, which is converted for this once; show lists its inputs, lengths, operators, and\n"
        "what of it mica lacks.\n"
        "\n"
        "show prints its parameters, a line a node with dtype, shape and operands, the\n"
        "graphs of branches and loops indented, and its results; with --output x.svg as a\n"
        "picture, if Graphviz's dot is there.\n"
        "\n"
        "run computes its results. Each input needs a value, by --input or --param; what is\n"
        "missing is listed with dtype and shape. Files may be npy, npz or safetensors: their\n"
        "first bytes tell. Without --output the first elements of each result are printed.\n"
        "--time measures runs after the first one, which plans and warms up.\n"
        "\n"
        "cost estimates a run on each device by what the device was measured at, which takes\n"
        "a second and is kept (mica help devices), and says which one it would choose.\n",
    .examples = "  mica program show net.mica\n"
                "  mica program show net.mica -o net.svg\n"
                "  mica program show net.onnx\n"
                "  mica program run net.mica --input x=x.npy --output y=y.npy\n"
                "  mica program run net.mica --param weights.safetensors --input x=0.5 --time 20\n"
                "  mica program run net.mica --input - -o - < x.npy > y.npy\n",
    .max_args = 2,
    .words = CLI_WORDS_FILES,
    .values_bytes = sizeof(cli_program_values),
    .groups = {{"Output", show_options, CLI_COUNT(show_options), 0},
               {"Run", run_options, CLI_COUNT(run_options), 0},
               {"Loading", device_options, CLI_COUNT(device_options), 0}},
    .run = run,
};

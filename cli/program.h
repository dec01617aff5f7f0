/* Shared by the files of `mica program`. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "options.h"
#include "text.h"

#include <mica/mica.h>

typedef struct cli_program_values {
    cli_texts output; /* of show one file, of run files of results */
    bool dot;
    cli_texts input, param; /* NAME=VALUE or a file */
    cli_texts dims;         /* NAME=N: lengths that are fixed */
    const char *constants;  /* a file of those that are outside of the program's file */
    const char *device;
    int64_t mode; /* a mica_mode */
    int64_t threads;
    int64_t time; /* runs that are timed; 0: none */
    bool cast, report;
} cli_program_values;

/** A mica_port of a program: what is asked of it must be there. */
static inline mica_port cli_program_param(const mica_program *program, size_t i) {
    mica_port port = {.struct_bytes = sizeof port};
    (void)mica_program_get_param(program, i, &port);
    return port;
}

static inline mica_port cli_program_result(const mica_program *program, size_t i) {
    mica_port port = {.struct_bytes = sizeof port};
    (void)mica_program_get_result(program, i, &port);
    return port;
}

/** Appends "[2,3]", with the names of symbols [ndim], or NULL.
 *
 *  returns  false after it reported that memory is out */
bool cli_program_put_shape(cli_text *text, const int64_t *shape, int ndim,
                           const char *const *symbols);

/** Prints "f32[2,3]". */
void cli_program_print_type(mica_dtype dtype, const int64_t *shape, int ndim, FILE *out);

/** Prints "f32[batch,3]"; "?" for a length that is made of symbols. */
void cli_program_print_port(const mica_port *port, FILE *out);

/* ---- onnx.c ---- */

enum { CLI_ONNX_NAME = 256 };

/** Options of mica_onnx_load, and what they point to. */
typedef struct cli_onnx {
    mica_onnx_options options;
    mica_scope *scope;
    char (*names)[CLI_ONNX_NAME];
    char *notes;
    mica_onnx_dim dims[CLI_TEXTS_MAX];
    mica_named_array inputs[CLI_TEXTS_MAX];
} cli_onnx;

/** Reads the words of --dim, NAME=N, and --input, NAME=NUMBER or NAME=FILE.
 *
 *  onnx     closed by cli_onnx_close; not moved before. Nothing is open after an error
 *  verb     whose help texts name
 *  returns  an exit code, after it reported an error */
int cli_onnx_open(cli_onnx *onnx, const char *verb, mica_device *device, const cli_texts *dims,
                  const cli_texts *inputs);
void cli_onnx_close(cli_onnx *onnx);
/** Prints what mica_onnx_load noted on stderr. */
void cli_onnx_tell(const cli_onnx *onnx, const char *path);

/** Reads "batch=1": the name goes into a buffer.  returns  an exit code, after it reported an error
 */
int cli_read_length(const char *verb, const char *word, char name[CLI_ONNX_NAME], int64_t *length);

/* ---- program_dot.c ---- */

/** Writes the text of a program (mica_program_print) as a graph in Graphviz's language. */
void cli_program_dot(const char *text, FILE *out);

/** Draws it by Graphviz's dot into a file, of the kind that its ending names.
 *
 *  returns  an exit code, after it reported an error */
int cli_program_draw(const char *text, const char *path);

/** Saves the graph in Graphviz's language, whole or not at all.
 *
 *  returns  an exit status, after a message where it failed */
int cli_program_save_dot(const char *text, const char *path);

/* ---- program_cost.c ---- */

/** Prints what a run is estimated to take on each device, or on that of --device, and which one
 *  mica_pick_device takes.  returns  an exit code */
int cli_program_cost(const cli_program_values *values, mica_device *device, mica_program *program);

/* ---- program_run.c ---- */

/** Runs a program as the options say.  returns an exit code */
int cli_program_run(const cli_program_values *values, mica_device *device, mica_program *program);

/* ---- program_value.c ---- */

/** What a program is given: the inputs of a run, and which parameters have a value. */
typedef struct cli_program_inputs {
    const mica_program *program;
    mica_executable *executable; /* that --param and numbers are set in */
    mica_scope *scope;           /* of the arrays that files hold */
    bool cast;                   /* other dtypes are converted */
    mica_input *inputs;          /* [n] of the parameters' number */
    size_t n;
    const char **from; /* [parameters] the word that gave it; NULL: none */
} cli_program_inputs;

/** Reads the words of --input (set false) or --param (set true).
 *
 *  returns  an exit code, after it reported an error */
int cli_program_read(cli_program_inputs *in, const cli_texts *words, bool set);

/** Checks that each parameter has a value.  returns an exit code; all that lack one were listed */
int cli_program_check(const cli_program_inputs *in);

/** Writes results to the files that the words of --output name; without any prints them.
 *
 *  results  [results of the program]
 *  returns  an exit code, after it reported an error */
int cli_program_write(const mica_program *program, const mica_array *results, mica_scope *s,
                      const cli_texts *words);

#endif

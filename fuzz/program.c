/* Input: the file of a program, in which magic, version, size and hash are set right here, so that
 * what is behind them is looked at; where the input's length is odd, as it is. A program that is
 * loaded is verified, printed and saved; what was saved is loaded and saved as the same bytes. If
 * its arrays are small, both run with zeros as arguments, and give the same bits; so do executables
 * with all passes and with none. Symbols are 3 for that. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "exec/program.h"

#include "custom_op.h"
#include "graph_file.h"
#include "small.h"

enum { MAX_PORTS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

static mica_device *device;

/* ---- loading ---- */

/* The constant that the files of the corpus have by name, f32 [4, 64]. */
static mica_status load(const void *file, size_t size, mica_program **program) {
    static mica_scope *s;
    static mica_named_array w;
    if (!s) {
        static const char zeros[4 * 4 * 64];
        must(mica_scope_open(device, &s) == MICA_OK);
        w.name = "model.w";
        w.array = mica_from_data(s, zeros, MICA_F32, (const int64_t[]){4, 64}, 2);
    }
    const mica_program_file_options options = {.constants = &w, .n_constants = 1};
    return mica_program_decode(device, file, size, &options, program);
}

/* Saved with all constants inside, loaded, and saved as the same bytes. */
static mica_program *load_again(const mica_program *program) {
    void *first, *second;
    size_t n, m;
    mica_program *again;
    must(mica_program_encode(program, NULL, &first, &n) == MICA_OK);
    must(mica_program_decode(device, first, n, NULL, &again) == MICA_OK);
    must(mica_program_encode(again, NULL, &second, &m) == MICA_OK);
    must(n == m && memcmp(first, second, n) == 0);
    mica_free(first);
    mica_free(second);
    return again;
}

/* ---- running ---- */

static mica_status run(const mica_program *program, mica_scope *s, mica_array *results) {
    static const char zeros[8 * MAX_ELEMENTS];
    mica_array args[MAX_PORTS];
    for (size_t i = 0; i < mica_program_param_count(program); i++) {
        mica_port port;
        must(mica_program_get_param(program, i, &port) == MICA_OK);
        args[i] = mica_from_data(s, zeros, port.dtype, port.shape, port.ndim);
    }
    return mica_program_run(program, s, args, results);
}

/* Values may be refused: an index may be outside its axis. */
static void compare(const mica_program *a, const mica_program *b) {
    static char left[8 * MAX_ELEMENTS], right[8 * MAX_ELEMENTS];
    mica_array x[MAX_PORTS], y[MAX_PORTS];
    mica_scope *s;
    must(mica_scope_open(device, &s) == MICA_OK);
    mica_status status = run(a, s, x);
    must(run(b, s, y) == status);
    must(status == MICA_OK || *mica_last_error() != '\0');
    for (size_t i = 0; status == MICA_OK && i < mica_program_result_count(a); i++) {
        size_t bytes = (size_t)mica_array_size(x[i]) * mica_dtype_bytes(mica_array_dtype(x[i]));
        must(mica_read(x[i], left, bytes) == MICA_OK && mica_read(y[i], right, bytes) == MICA_OK);
        must(memcmp(left, right, bytes) == 0);
    }
    mica_scope_close(&s);
}

/* With no pass, and with all. */
static mica_executable *open_executable(const mica_program *p, const char *off) {
    static const char zeros[8 * MAX_ELEMENTS];
    mica_executable *x;
    const mica_executable_options options = {.mode = MICA_MODE_COMPILED, .passes_off = off};
    must(mica_executable_open(p, &options, &x) == MICA_OK);
    for (size_t i = 0; i < mica_program_param_count(p); i++) {
        mica_port port = {.struct_bytes = sizeof port};
        must(mica_program_get_param(p, i, &port) == MICA_OK);
        const mc_layout *l = &mc_scope_node(p->graph, (uint32_t)i)->layout;
        const mica_input zero = {.name = port.name,
                                 .data = zeros,
                                 .bytes = (size_t)mc_layout_bytes(l),
                                 .dtype = port.dtype};
        if (zero.bytes > 0) must(mica_executable_set(x, &zero) == MICA_OK);
        if (zero.bytes == 0) must(mica_executable_fill(x, port.name, 0) == MICA_OK);
    }
    return x;
}

/* Passes change no bits. One that is refused is refused with and without them. */
static void compare_passes(const mica_program *p) {
    static char left[8 * MAX_ELEMENTS], right[8 * MAX_ELEMENTS];
    mica_array a[MAX_PORTS], b[MAX_PORTS];
    mica_scope *s;
    mica_executable *x = open_executable(p, "all"), *y = open_executable(p, "");
    must(mica_scope_open(device, &s) == MICA_OK);
    mica_status status = mica_executable_run(x, NULL, 0, s, a);
    must(mica_executable_run(y, NULL, 0, s, b) == status);
    for (size_t i = 0; status == MICA_OK && i < p->n_results; i++) {
        size_t bytes = (size_t)mica_array_size(a[i]) * mica_dtype_bytes(mica_array_dtype(a[i]));
        must(mica_read(a[i], left, bytes) == MICA_OK && mica_read(b[i], right, bytes) == MICA_OK);
        must(memcmp(left, right, bytes) == 0);
    }
    mica_scope_close(&s);
    mica_executable_close(&x);
    mica_executable_close(&y);
}

/* The program for lengths of 3, which may not fit. */
static mica_program *bind(const mica_program *p) {
    mica_length lengths[MC_MAX_SYMBOLS];
    mica_program *bound;
    for (size_t i = 0; i < mica_program_symbol_count(p); i++)
        lengths[i] = (mica_length){mica_program_symbol(p, i), 3};
    if (mica_program_bind(p, lengths, mica_program_symbol_count(p), &bound) == MICA_OK)
        return bound;
    must(*mica_last_error() != '\0');
    return NULL;
}

static void run_both(const mica_program *program, const mica_program *again) {
    if (!fuzz_is_small(program->graph, 1) || program->n_params > MAX_PORTS ||
        program->n_results > MAX_PORTS)
        return;
    compare(program, again);
    compare_passes(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!device) {
        must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) == MICA_OK);
        must(fuzz_register_op() == MICA_OK);
    }
    char *file = fuzz_graph_file(data, &size), *text;
    must(file != NULL);
    mica_program *program;
    if (load(file, size, &program) == MICA_OK) {
        must(mica_program_verify(program) == MICA_OK);
        must(mica_program_print(program, &text) == MICA_OK);
        mica_free(text);
        mica_program *again = load_again(program);
        if (program->n_symbols > 0) {
            mica_program *first = bind(program), *second = bind(again);
            must(!first == !second);
            if (first) run_both(first, second);
            mica_program_close(&first);
            mica_program_close(&second);
        } else {
            run_both(program, again);
        }
        mica_program_close(&again);
        mica_program_close(&program);
    } else {
        must(*mica_last_error() != '\0' && !program);
    }
    free(file);
    return 0;
}

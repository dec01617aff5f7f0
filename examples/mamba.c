/* A Mamba block that gets a sequence in pieces. Its state, and the last inputs of its convolution,
 * are parameters that results feed: they stay in the executable from run to run. */
#include "example.h"

enum { PIECE = 6, DIM = 8, INNER = 16, STATES = 4, RANK = 2, TAPS = 4 };

static mica_array times(mica_scope *s, mica_array x, mica_array w) { /* x w^T */
    return mica_matmul(s, x, mica_transpose(s, w, NULL));
}

/* x [1, PIECE, DIM], before [1, TAPS - 1, INNER], state [1, INNER, STATES]; results y, and the new
 * values of the two */
static void block(mica_scope *s, const mica_named_array *w, size_t n, const mica_param *p,
                  mica_array y[3]) {
    const int64_t taps[] = {INNER, TAPS, 1};
    mica_array both = times(s, p[0].array, find(w, n, "in")), last;
    mica_array u = mica_slice_axis(s, both, 2, 0, INNER);
    mica_array line = mica_concatenate(s, (mica_array[]){p[1].array, u}, 2, 1);
    y[1] = mica_slice_axis(s, line, 1, PIECE, PIECE + TAPS - 1);
    u = mica_conv1d(s, line, mica_reshape(s, find(w, n, "conv"), taps, 3), MICA_CHANNELS_LAST,
                    &(mica_conv_options){.groups = INNER});
    u = mica_silu(s, mica_add(s, u, find(w, n, "conv_bias")));
    mica_array proj = times(s, u, find(w, n, "x_proj"));
    mica_array delta = times(s, mica_slice_axis(s, proj, 2, 0, RANK), find(w, n, "dt"));
    const mica_selective_scan_options options = {.delta_softplus = true,
                                                 .d = find(w, n, "d"),
                                                 .z = mica_slice_axis(s, both, 2, INNER, 2 * INNER),
                                                 .initial = p[2].array};
    mica_array scanned = mica_selective_scan(
        s, u, mica_add(s, delta, find(w, n, "dt_bias")), find(w, n, "a"),
        mica_slice_axis(s, proj, 2, RANK, RANK + STATES),
        mica_slice_axis(s, proj, 2, RANK + STATES, RANK + 2 * STATES), &options, &last);
    y[0] = times(s, scanned, find(w, n, "out"));
    y[2] = last;
}

static mica_status run(mica_scope *s, const mica_named_array *w, size_t n) {
    static const char *const names[] = {"y", "before", "state"};
    mica_program *program = NULL;
    mica_executable *exe = NULL;
    mica_array y[3], whole = find(w, n, "x"), wanted = find(w, n, "y");
    const mica_param p[] = {
        {"x", mica_program_param(s, MICA_F32, (int64_t[]){1, PIECE, DIM}, 3), false},
        {"before", mica_program_param(s, MICA_F32, (int64_t[]){1, TAPS - 1, INNER}, 3), true},
        {"state", mica_program_param(s, MICA_F32, (int64_t[]){1, INNER, STATES}, 3), true}};
    block(s, w, n, p, y);
    mica_status status =
        mica_program_build(s, p, 3, y, 3, &(mica_program_options){.result_names = names}, &program);
    if (!status) status = mica_executable_open(program, NULL, &exe);
    for (int i = 1; !status && i < 3; i++)
        if (!(status = mica_executable_fill(exe, names[i], 0)))
            status = mica_executable_feed(exe, names[i], names[i]);
    for (int64_t t = 0; !status && t < mica_array_dim(whole, 1); t += PIECE) {
        const mica_input x = {.name = "x", .array = mica_slice_axis(s, whole, 1, t, t + PIECE)};
        status = mica_executable_run(exe, &x, 1, s, y);
        double off = status ? 0 : difference(s, y[0], mica_slice_axis(s, wanted, 1, t, t + PIECE));
        printf("steps %2d to %2d: PyTorch differs by %.1g\n", (int)t, (int)t + PIECE - 1, off);
        if (!status && !(off < 1e-5)) status = MICA_EINTERNAL;
    }
    mica_executable_close(&exe);
    mica_program_close(&program);
    return status;
}

int main(void) {
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_named_array *weights = NULL;
    size_t n = 0;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status) status = mica_load_safetensors("examples/data/mamba.safetensors", s, &weights, &n);
    if (!status) status = run(s, weights, n);
    if (status) fprintf(stderr, "%s %s\n", mica_status_name(status), mica_last_error());
    mica_free(weights);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK;
}

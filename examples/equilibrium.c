/* A loop that stops on a condition: x = tanh(w x + u) is repeated until no element changes by 1e-5.
 * The loop is a node of the program, which says how many rounds it took. */
#include "example.h"

/* What is carried: x [16], and how much it changed. */
static mica_status changes(void *user, mica_scope *s, const mica_array *x, size_t n_x,
                           mica_array *y, size_t n_y) {
    (void)user, (void)n_x, (void)n_y;
    y[0] = mica_greater_equal(s, x[1], mica_f32(s, 1e-5f));
    return MICA_OK;
}

static mica_status step(void *user, mica_scope *s, const mica_array *x, size_t n_x, mica_array *y,
                        size_t n_y) {
    const mica_array *wu = user;
    (void)n_x, (void)n_y;
    y[0] = mica_tanh(s, mica_add(s, mica_matmul(s, wu[0], x[0]), wu[1]));
    y[1] = mica_max(s, mica_abs(s, mica_subtract(s, y[0], x[0])), NULL, 0, false);
    return MICA_OK;
}

static mica_status run(mica_scope *s, const mica_named_array *w, size_t n) {
    mica_program *program = NULL;
    const mica_while_options options = {.max_rounds = 1000};
    mica_array wu[] = {find(w, n, "w"), mica_program_param(s, MICA_F32, (int64_t[]){16}, 1)};
    mica_array init[] = {mica_zeros(s, (int64_t[]){16}, 1, MICA_F32), mica_f32(s, INFINITY)};
    mica_array results[3], u = find(w, n, "u");
    mica_status status = mica_while(s, changes, step, wu, init, 2, &options, results, &results[2]);
    const mica_param param = {.name = "u", .array = wu[1]};
    if (!status) status = mica_program_build(s, &param, 1, results, 3, NULL, &program);
    if (!status) status = mica_program_run(program, s, &u, results);
    int64_t rounds = 0, wanted = 0;
    if (!status) status = mica_item_i64(results[2], &rounds);
    if (!status) status = mica_item_i64(find(w, n, "rounds"), &wanted);
    mica_program_close(&program);
    if (status) return status;
    double off = difference(s, results[0], find(w, n, "y"));
    printf("%d rounds; PyTorch takes %d and differs by %.1g\n", (int)rounds, (int)wanted, off);
    return rounds == wanted && off < 1e-5 ? MICA_OK : MICA_EINTERNAL;
}

int main(void) {
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_named_array *weights = NULL;
    size_t n = 0;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status)
        status = mica_load_safetensors("examples/data/equilibrium.safetensors", s, &weights, &n);
    if (!status) status = run(s, weights, n);
    if (status) fprintf(stderr, "%s %s\n", mica_status_name(status), mica_last_error());
    mica_free(weights);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK;
}

/* Trains a small network by gradient descent: y = tanh(x w1) w2, to compute whether the two bits in
 * x differ. A step is recorded once, with its gradients, and run as a program. */
#include <mica/mica.h>

#include <stdio.h>

enum { ROWS = 4, HIDDEN = 8, STEPS = 200 };

/* args x [ROWS, 3], wanted [ROWS, 1], w1 [3, HIDDEN], w2 [HIDDEN, 1]; result: the mean square
 * error */
static mica_status loss(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    mica_array y = mica_matmul(s, mica_tanh(s, mica_matmul(s, args[0], args[2])), args[3]);
    results[0] = mica_mean(s, mica_square(s, mica_subtract(s, y, args[1])), NULL, 0, false);
    return MICA_OK;
}

/* The same args; results: new weights, and the loss before. */
static mica_status step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    static const size_t weights[] = {2, 3};
    mica_array rate = mica_f32(s, 0.2f), grads[2];
    mica_status status =
        mica_value_and_grad(s, loss, user, args, n_args, weights, 2, &results[2], 1, grads);
    for (size_t i = 0; status == MICA_OK && i + 1 < n_results; i++)
        results[i] = mica_subtract(s, args[2 + i], mica_multiply(s, grads[i], rate));
    return status;
}

static mica_status train(mica_device *device, mica_scope *s) {
    static const float x[ROWS][3] = {{0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}}; /* 1: a bias */
    static const float wanted[ROWS] = {0, 1, 1, 0};
    mica_array args[] = {
        mica_from_data(s, x, MICA_F32, (int64_t[]){ROWS, 3}, 2),
        mica_from_data(s, wanted, MICA_F32, (int64_t[]){ROWS, 1}, 2),
        mica_random_normal(s, mica_random_key(s, 1), (int64_t[]){3, HIDDEN}, 2, MICA_F32, 0, 1),
        mica_random_normal(s, mica_random_key(s, 2), (int64_t[]){HIDDEN, 1}, 2, MICA_F32, 0, 1),
    };
    mica_function *f = NULL;
    mica_status status = mica_compile(device, step, NULL, NULL, &f);
    for (int i = 0; status == MICA_OK && i < STEPS; i++) {
        mica_array results[3];
        double value = 0;
        status = mica_function_call(f, s, args, 4, results, 3);
        if (status == MICA_OK) status = mica_item_f64(results[2], &value);
        if (i % 50 == 0 || i == STEPS - 1) printf("step %3d: loss %.4f\n", i, value);
        args[2] = results[0];
        args[3] = results[1];
    }
    mica_function_close(&f);
    return status;
}

int main(void) {
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (status == MICA_OK) status = mica_scope_open(device, &s);
    if (status == MICA_OK) status = train(device, s);
    if (status != MICA_OK) fprintf(stderr, "%s\n", mica_last_error());
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK;
}

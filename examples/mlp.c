/* A network that PyTorch has trained, which tells two spirals apart: its weights are read from
 * safetensors, recorded as a program, and run with 8 points. */
#include "example.h"

/* x weight^T + bias, as torch.nn.Linear */
static mica_array linear(mica_scope *s, mica_array x, const mica_named_array *w, size_t n,
                         const char *weight, const char *bias) {
    mica_array y = mica_matmul(s, x, mica_transpose(s, find(w, n, weight), NULL));
    return mica_add(s, y, find(w, n, bias));
}

static mica_status run(mica_scope *s, const mica_named_array *w, size_t n) {
    mica_program *program = NULL;
    mica_array points = find(w, n, "x"), y;
    mica_array x = mica_program_param(s, MICA_F32, mica_array_shape(points), 2);
    mica_array h = mica_tanh(s, linear(s, x, w, n, "0.weight", "0.bias"));
    h = mica_tanh(s, linear(s, h, w, n, "2.weight", "2.bias"));
    mica_array p = mica_softmax(s, linear(s, h, w, n, "4.weight", "4.bias"), -1);
    const mica_param param = {.name = "x", .array = x};
    mica_status status = mica_program_build(s, &param, 1, &p, 1, NULL, &program);
    if (status == MICA_OK) status = mica_program_run(program, s, &points, &y);
    mica_program_close(&program);
    if (status != MICA_OK) return status;
    mica_iter at = {0}, is = {0};
    mica_array second = mica_slice_axis(s, y, 1, 1, 2);
    for (float xy[2] = {0}; mica_next(second, &is);) {
        for (int k = 0; k < 2 && mica_next(points, &at); k++)
            memcpy(&xy[k], at.value, sizeof xy[k]);
        printf("(%5.2f, %5.2f) is on the second spiral with %.3f\n", (double)xy[0], (double)xy[1],
               (double)*(const float *)is.value);
    }
    double off = difference(s, y, find(w, n, "y"));
    printf("PyTorch differs by %.1g\n", off);
    return off < 1e-5 ? MICA_OK : MICA_EINTERNAL;
}

int main(void) {
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_named_array *weights = NULL;
    size_t n = 0;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status) status = mica_load_safetensors("examples/data/mlp.safetensors", s, &weights, &n);
    if (!status) status = run(s, weights, n);
    if (status) fprintf(stderr, "%s %s\n", mica_status_name(status), mica_last_error());
    mica_free(weights);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK;
}

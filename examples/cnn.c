/* A small convolutional network with weights of PyTorch, as an executable: weights are set once by
 * their names, and a run gets the image. */
#include "example.h"

/* Weights are parameters, of the shapes that they have in the file. */
static mica_array param(mica_scope *s, const mica_named_array *w, size_t n, const char *name,
                        mica_param *params, size_t *count) {
    mica_array like = find(w, n, name);
    mica_array x = mica_program_param(s, MICA_F32, mica_array_shape(like), mica_array_ndim(like));
    params[(*count)++] = (mica_param){.name = name, .array = x};
    return x;
}

/* relu(conv(x) + bias), channels first */
static mica_array conv(mica_scope *s, mica_array x, mica_array w, mica_array bias, int64_t stride,
                       int64_t groups) {
    const mica_conv_options options = {
        .stride = {stride, stride}, .padding_lo = {1, 1}, .padding_hi = {1, 1}, .groups = groups};
    mica_array y = mica_conv2d(s, x, w, MICA_CHANNELS_FIRST, &options);
    const int64_t shape[] = {1, mica_array_size(bias), 1, 1};
    return mica_relu(s, mica_add(s, y, mica_reshape(s, bias, shape, 4)));
}

static mica_status run(mica_scope *s, const mica_named_array *w, size_t n) {
    mica_param p[7];
    mica_executable *exe = NULL;
    mica_program *program = NULL;
    size_t count = 0;
    mica_array x = param(s, w, n, "x", p, &count), result;
    mica_array w1 = param(s, w, n, "0.weight", p, &count), b1 = param(s, w, n, "0.bias", p, &count);
    mica_array w2 = param(s, w, n, "3.weight", p, &count), b2 = param(s, w, n, "3.bias", p, &count);
    mica_array w3 = param(s, w, n, "7.weight", p, &count), b3 = param(s, w, n, "7.bias", p, &count);
    const mica_pool_options half = {.kernel = {2, 2}, .stride = {2, 2}};
    mica_array y = conv(s, x, w1, b1, 2, 1);
    y = mica_pool(s, y, 2, MICA_WINDOW_MAX, MICA_CHANNELS_FIRST, &half);
    y = mica_mean(s, conv(s, y, w2, b2, 1, 4), (const int[]){2, 3}, 2, false);
    y = mica_add(s, mica_matmul(s, y, mica_transpose(s, w3, NULL)), b3);
    mica_status status = mica_program_build(s, p, count, &y, 1, NULL, &program);
    if (!status) status = mica_executable_open(program, NULL, &exe);
    for (size_t i = 1; !status && i < count; i++)
        status = mica_executable_set(
            exe, &(mica_input){.name = p[i].name, .array = find(w, n, p[i].name)});
    const mica_input image = {.name = "x", .array = find(w, n, "x")};
    if (!status) status = mica_executable_run(exe, &image, 1, s, &result);
    double off = status ? 0 : difference(s, result, find(w, n, "y"));
    if (!status) printf("%zu weights; PyTorch differs by %.1g\n", count - 1, off);
    mica_executable_close(&exe);
    mica_program_close(&program);
    return status || off < 1e-5 ? status : MICA_EINTERNAL;
}

int main(void) {
    mica_device *device = NULL;
    mica_scope *s = NULL;
    mica_named_array *weights = NULL;
    size_t n = 0;
    mica_status status = mica_device_open("cpu", NULL, &device);
    if (!status) status = mica_scope_open(device, &s);
    if (!status) status = mica_load_safetensors("examples/data/cnn.safetensors", s, &weights, &n);
    if (!status) status = run(s, weights, n);
    if (status) fprintf(stderr, "%s %s\n", mica_status_name(status), mica_last_error());
    mica_free(weights);
    mica_scope_close(&s);
    mica_device_close(&device);
    return status != MICA_OK;
}

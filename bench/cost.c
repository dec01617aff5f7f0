/* Predicts what networks take on each device, and times them.
 *
 *     cost [DEVICE...]
 *
 * A row a network: predicted and measured milliseconds for each device, and their ratio; then the
 * device that is chosen, and whether it was the fastest. Medians of 9 runs; the default devices are
 * cpu and, where it is there, mlx. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "timing.h"

enum { RUNS = 9, MAX_PARAMS = 64, MAX_DEVICES = 4 };

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)

/* A network being recorded; its parameters are weights and inputs, of any values. */
typedef struct network {
    mica_scope *s;
    mica_param params[MAX_PARAMS];
    size_t n;
} network;

static mica_array weight(network *net, const int64_t *shape, int ndim) {
    mica_array x = mica_program_param(net->s, MICA_F32, shape, ndim);
    net->params[net->n++].array = x;
    return x;
}

static mica_array dense(network *net, mica_array x, int64_t in, int64_t out) {
    mica_array y = mica_matmul(net->s, x, weight(net, SHAPE(in, out)));
    return mica_add(net->s, y, weight(net, SHAPE(out)));
}

static mica_array mlp(network *net) {
    mica_array x = weight(net, SHAPE(64, 784));
    x = mica_relu(net->s, dense(net, x, 784, 512));
    x = mica_relu(net->s, dense(net, x, 512, 512));
    return mica_softmax(net->s, dense(net, x, 512, 10), -1);
}

static mica_array normed(network *net, mica_array x, int64_t width) {
    return mica_layer_norm(net->s, x, weight(net, SHAPE(width)), weight(net, SHAPE(width)), 1e-5f);
}

static mica_array heads(network *net, mica_array x, int64_t length) {
    x = mica_reshape(net->s, dense(net, x, 768, 768), SHAPE(1, length, 12, 64));
    return mica_transpose(net->s, x, (const int[]){0, 2, 1, 3});
}

/* Two layers of BERT-base. */
static mica_array encoder(network *net, int64_t length) {
    mica_array x = weight(net, SHAPE(1, length, 768));
    for (int layer = 0; layer < 2; layer++) {
        mica_array q = heads(net, x, length), k = heads(net, x, length), v = heads(net, x, length);
        mica_array y = mica_sdpa(net->s, q, k, v, NULL);
        y = mica_transpose(net->s, y, (const int[]){0, 2, 1, 3});
        y = dense(net, mica_reshape(net->s, y, SHAPE(1, length, 768)), 768, 768);
        x = normed(net, mica_add(net->s, x, y), 768);
        y = mica_gelu(net->s, dense(net, x, 768, 3072));
        x = normed(net, mica_add(net->s, x, dense(net, y, 3072, 768)), 768);
    }
    return x;
}
static mica_array encoder_128(network *net) {
    return encoder(net, 128);
}
static mica_array encoder_512(network *net) {
    return encoder(net, 512);
}

static mica_array conv(network *net, mica_array x, int64_t in, int64_t out, int64_t k,
                       int64_t stride) {
    const mica_conv_options options = {
        .stride = {stride, stride}, .padding_lo = {k / 2, k / 2}, .padding_hi = {k / 2, k / 2}};
    return mica_conv_general(net->s, x, weight(net, SHAPE(out, k, k, in)), &options);
}

/* Stages of ResNet-18: two blocks at 56 x 56, one at 28 x 28. */
static mica_array resnet(network *net) {
    mica_array x = weight(net, SHAPE(1, 56, 56, 64));
    for (int block = 0; block < 2; block++) {
        mica_array y = mica_relu(net->s, conv(net, x, 64, 64, 3, 1));
        x = mica_relu(net->s, mica_add(net->s, x, conv(net, y, 64, 64, 3, 1)));
    }
    mica_array y = mica_relu(net->s, conv(net, x, 64, 128, 3, 2));
    y = conv(net, y, 128, 128, 3, 1);
    return mica_relu(net->s, mica_add(net->s, y, conv(net, x, 64, 128, 1, 2)));
}

/* Blocks of MobileNet: a filter for each channel, then a product. */
static mica_array mobilenet(network *net) {
    const mica_conv_options options = {.padding_lo = {1, 1}, .padding_hi = {1, 1}, .groups = 128};
    mica_array x = weight(net, SHAPE(1, 28, 28, 128));
    for (int block = 0; block < 2; block++) {
        x = mica_conv_general(net->s, x, weight(net, SHAPE(128, 3, 3, 1)), &options);
        x = mica_relu(net->s, conv(net, mica_relu(net->s, x), 128, 128, 1, 1));
    }
    return x;
}

/* Products of one row: reading the weights is all. */
static mica_array decoder(network *net) {
    mica_array x = weight(net, SHAPE(1, 1024));
    for (int layer = 0; layer < 4; layer++) {
        mica_array gate = mica_silu(net->s, dense(net, x, 1024, 3072));
        x = dense(net, mica_multiply(net->s, gate, dense(net, x, 1024, 3072)), 3072, 1024);
    }
    return x;
}

static mica_array mamba(network *net) {
    mica_array x = dense(net, weight(net, SHAPE(1, 512, 256)), 256, 512);
    mica_array a = weight(net, SHAPE(512, 16));
    mica_array b = dense(net, x, 512, 16), c = dense(net, x, 512, 16);
    mica_array y = mica_selective_scan(net->s, x, x, a, b, c, NULL, NULL);
    return dense(net, y, 512, 256);
}

static mica_array spectrum(network *net) {
    mica_array x = weight(net, SHAPE(256, 1024));
    return mica_abs(net->s, mica_rfft(net->s, x, 1024, -1, MICA_FFT_BACKWARD));
}

/* Eight steps by element over 64 MiB. */
static mica_array elements(network *net) {
    mica_scope *s = net->s;
    mica_array x = weight(net, SHAPE(4096, 4096)), y = x;
    for (int i = 0; i < 4; i++)
        y = mica_maximum(s, mica_multiply(s, y, mica_f32(s, 0.5f)), mica_f32(s, 0.1f));
    return y;
}

static mica_array rows(network *net) {
    const int last = -1;
    mica_array x = weight(net, SHAPE(2048, 2048));
    x = mica_softmax(net->s, x, last);
    return mica_sum(net->s, x, &last, 1, false);
}

static const struct {
    const char *name;
    mica_array (*record)(network *net);
} networks[] = {{"mlp", mlp},
                {"encoder, 128 tokens", encoder_128},
                {"encoder, 512 tokens", encoder_512},
                {"resnet", resnet},
                {"mobilenet", mobilenet},
                {"decoder step", decoder},
                {"mamba", mamba},
                {"spectrum", spectrum},
                {"8 steps by element", elements},
                {"rows", rows}};

static mica_program *build(mica_device *device, mica_array (*record)(network *)) {
    static network net;
    mica_program *p;
    net = (network){0};
    must(mica_scope_open(device, &net.s));
    mica_array y = record(&net);
    must(mica_program_build(net.s, net.params, net.n, &y, 1, NULL, &p));
    mica_scope_close(&net.s);
    return p;
}

static double time_on(const mica_program *program, mica_device *device) {
    double seconds[RUNS];
    mica_program *moved;
    mica_executable *x;
    must(mica_program_to_device(program, device, &moved));
    must(mica_executable_open(moved, NULL, &x));
    for (size_t i = 0; i < mica_program_param_count(moved); i++) {
        mica_port port = {.struct_bytes = sizeof port};
        must(mica_program_get_param(moved, i, &port));
        must(mica_executable_fill(x, port.name, 0.01));
    }
    for (int i = -2; i < RUNS; i++) {
        uint64_t from = mc_now_us();
        must(mica_executable_run(x, NULL, 0, NULL, NULL));
        if (i >= 0) seconds[i] = (double)(mc_now_us() - from) * 1e-6;
    }
    mica_executable_close(&x);
    mica_program_close(&moved);
    return median(seconds, RUNS);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"cpu", "mlx"};
    mica_candidate c[MAX_DEVICES] = {{0}};
    const char *names[MAX_DEVICES];
    size_t n = 0;
    int asked = argc > 1 ? argc - 1 : 2, good = 0, all = 0;
    for (int i = 0; i < asked && n < MAX_DEVICES; i++) {
        names[n] = argc > 1 ? argv[1 + i] : usual[i];
        if (mica_device_open(names[n], NULL, &c[n].device) != MICA_OK) continue;
        must(mica_device_calibrate(c[n].device, true));
        n++;
    }
    for (size_t k = 0; k < sizeof networks / sizeof *networks && n > 0; k++) {
        size_t pick, best = 0;
        double measured[MAX_DEVICES];
        mica_program *p = build(c[0].device, networks[k].record);
        must(mica_pick_device(p, c, n, NULL, &pick));
        printf("%-20s", networks[k].name);
        for (size_t d = 0; d < n; d++) {
            measured[d] = time_on(p, c[d].device);
            double ratio = c[d].seconds / measured[d];
            best = measured[d] < measured[best] ? d : best;
            good += ratio >= 0.75 && ratio <= 1.25;
            all++;
            printf("  %s %8.3f of %8.3f ms, %4.2f", names[d], c[d].seconds * 1e3, measured[d] * 1e3,
                   ratio);
        }
        printf("  picks %s%s\n", names[pick], pick == best ? "" : ", which is not the fastest");
        mica_program_close(&p);
    }
    printf("within 25 %%: %d of %d\n", good, all);
    for (size_t d = 0; d < n; d++)
        mica_device_close(&c[d].device);
    return 0;
}

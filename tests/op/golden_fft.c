/* Goldens of Fourier transforms: ops/fft.json, which tools/make_fft_goldens.py makes. Complex
 * numbers are f32 [..., 2] there. */
#include <math.h>
#include <string.h>

#include <mica/signal.h>

#include "op/golden_complex.h"

static mica_fft_norm norm_of(const golden *g) {
    char text[64];
    if (!golden_text(g, "norm", text)) return MICA_FFT_BACKWARD;
    static const char *const names[] = {"backward", "ortho", "forward", "none"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, names[i])) return (mica_fft_norm)i;
    fail_msg("%s: norm %s", g->name, text);
    return MICA_FFT_NONE;
}

static mica_array x_of(const golden *g) {
    mica_array x = golden_in(g, "x");
    return golden_bool(g, "complex", false) ? golden_as_complex(g->s, x) : x;
}

typedef mica_array (*one_axis)(mica_scope *, mica_array, int64_t, int, mica_fft_norm);
typedef mica_array (*two_axes)(mica_scope *, mica_array, const int64_t *, const int *,
                               mica_fft_norm);
typedef mica_array (*all_axes)(mica_scope *, mica_array, const int64_t *, const int *, int,
                               mica_fft_norm);

static const struct {
    const char *name;
    one_axis one;
    two_axes two;
    all_axes all;
} transforms[] = {{"fft", mica_fft, mica_fft2, mica_fftn},
                  {"ifft", mica_ifft, mica_ifft2, mica_ifftn},
                  {"rfft", mica_rfft, mica_rfft2, mica_rfftn},
                  {"irfft", mica_irfft, mica_irfft2, mica_irfftn}};

static mica_array transform(const golden *g, const char *op, mica_array x) {
    int64_t n[MICA_MAX_NDIM] = {0}, list[MICA_MAX_NDIM];
    int axes[MICA_MAX_NDIM], n_axes = golden_ints(g, "axes", list, MICA_MAX_NDIM);
    bool has_n = golden_ints(g, "n", n, MICA_MAX_NDIM) > 0;
    for (int i = 0; i < n_axes; i++)
        axes[i] = (int)list[i];
    size_t length = strlen(op) - (strchr("2n", op[strlen(op) - 1]) ? 1 : 0);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++) {
        if (strlen(transforms[i].name) != length || strncmp(op, transforms[i].name, length) != 0)
            continue;
        if (op[length] == '2')
            return transforms[i].two(g->s, x, has_n ? n : NULL, n_axes > 0 ? axes : NULL,
                                     norm_of(g));
        if (op[length] == 'n')
            return transforms[i].all(g->s, x, has_n ? n : NULL, n_axes > 0 ? axes : NULL,
                                     n_axes > 0 ? n_axes : 0, norm_of(g));
        return transforms[i].one(g->s, x, n[0], (int)golden_int(g, "axis", -1), norm_of(g));
    }
    fail_msg("%s: no transform", op);
    return MICA_NONE;
}

static bool run_transform(golden *g) {
    g->out[0] = golden_as_pairs(g->s, transform(g, g->op, x_of(g)));
    golden_allow_points(g, mica_array_size(g->in[0]));
    return true;
}

static bool run_gradient(golden *g) {
    char op[64];
    mica_array x = x_of(g), dx = MICA_NONE;
    assert_true(golden_text(g, "of", op));
    mica_array y = mica_abs(g->s, transform(g, op, x));
    y = mica_sum(g->s, mica_multiply(g->s, mica_square(g->s, y), golden_in(g, "w")), NULL, 0,
                 false);
    if (mica_grad(g->s, y, MICA_NONE, &x, 1, &dx) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    g->out[0] = golden_as_pairs(g->s, dx);
    golden_allow_points(g, 64 * mica_array_size(g->in[0]));
    return true;
}

static bool run_fftfreq(golden *g) {
    g->out[0] = mica_fftfreq(g->s, golden_int(g, "points", 0));
    return true;
}

static bool run_rfftfreq(golden *g) {
    g->out[0] = mica_rfftfreq(g->s, golden_int(g, "points", 0));
    return true;
}

static bool run_fftshift(golden *g) {
    g->out[0] = mica_fftshift(g->s, golden_in(g, "x"), NULL, 0);
    return true;
}

static bool run_ifftshift(golden *g) {
    int64_t axis = 0;
    golden_ints(g, "axes", &axis, 1);
    g->out[0] = mica_ifftshift(g->s, golden_in(g, "x"), (const int[]){(int)axis}, 1);
    return true;
}

static bool run_stft(golden *g) {
    mica_array y = mica_stft(g->s, golden_in(g, "x"), golden_int(g, "frame", 0),
                             golden_int(g, "hop", 0), MICA_FFT_BACKWARD);
    g->out[0] = golden_as_pairs(g->s, y);
    golden_allow_points(g, 64);
    return true;
}

static bool run_psd(golden *g) {
    mica_array x = golden_in(g, "x");
    g->out[0] = mica_psd(g->s, mica_rfft(g->s, x, 0, -1, MICA_FFT_BACKWARD), mica_array_dim(x, -1));
    golden_allow_points(g, 64);
    return true;
}

static bool run_fft_conv1d(golden *g) {
    g->out[0] = mica_fft_conv1d(g->s, golden_in(g, "x"), golden_in(g, "b"));
    golden_allow_points(g, 64);
    return true;
}

#define ROW(name) \
    { .op = #name, .run = run_##name }
#define TRANSFORM(name) \
    { .op = #name, .run = run_transform }
static const golden_row rows[] = {
    TRANSFORM(fft),   TRANSFORM(ifft),   TRANSFORM(rfft),   TRANSFORM(irfft), TRANSFORM(fft2),
    TRANSFORM(ifft2), TRANSFORM(rfft2),  TRANSFORM(irfft2), TRANSFORM(fftn),  TRANSFORM(ifftn),
    TRANSFORM(rfftn), TRANSFORM(irfftn), ROW(gradient),     ROW(fftfreq),     ROW(rfftfreq),
    ROW(fftshift),    ROW(ifftshift),    ROW(stft),         ROW(psd),         ROW(fft_conv1d),
};

const golden_group golden_fft = {"fft", rows, sizeof rows / sizeof *rows, NULL};

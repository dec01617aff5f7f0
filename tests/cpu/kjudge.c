/* Shared by the checks: judging results, and operands. */
#include "cpu/kcheck.h"

void fail_check(check *c, const char *what) {
    if (c->failures++ == 0) c->what = what;
}

void judge(check *c, double got, double want, double bound) {
    c->cases++;
    double error = fabs(got - want);
    if (error == 0) return;
    /* Below the smallest normal number a sum is rounded to a fixed step. */
    double ratio = error / (bound + (double)FLT_TRUE_MIN * 64);
    if (!(ratio <= 1)) fail_check(c, "beyond the bound");
    if (ratio > c->worst) c->worst = ratio;
}

guarded floats(const check *c, int64_t n) {
    guarded g = guarded_new((size_t)n * sizeof(float), c->where);
    for (int64_t i = 0; i < n; i++)
        ((float *)g.data)[i] = NAN;
    return g;
}

void release(check *c, guarded *g) {
    if (!guarded_free(g)) fail_check(c, "wrote outside");
}

void same_bits(check *c, const float *a, const float *b, int64_t n, const char *what) {
    c->cases++;
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_check(c, what);
}

void with_another(check *c) {
    c->cases++;
}

mk_kernels reference(void) {
    mk_kernels kern;
    mk_kernels_fill(&kern, MK_ISA_ref);
    return kern;
}

void fill_bf16(uint16_t *x, int64_t n, kind kinds) {
    float *wide = malloc((size_t)n * sizeof *wide);
    if (wide == NULL) exit(EXIT_FAILURE);
    fill_floats(wide, n, kinds == TINY ? PLAIN : kinds); /* subnormals may count as 0 */
    for (int64_t i = 0; i < n; i++)
        x[i] = mk_to_bf16(wide[i]);
    free(wide);
}

void in_variants(check *c, const variant *variants, void (*run)(check *c, const void *what),
                 const void *what) {
    const mk_kernels *taken = c->kern;
    run(c, what);
    for (; variants->fill != NULL; variants++) {
        if (strcmp(variants->isa, mk_isa_name(taken->isa)) != 0) continue;
        mk_kernels other = *taken;
        variants->fill(&other);
        if (memcmp(&other, taken, sizeof other) == 0) continue; /* this variant is the machine's */
        c->kern = &other;
        run(c, what);
    }
    c->kern = taken;
}

double q8_value(const uint8_t *row, int64_t n, int64_t l) {
    uint16_t scale;
    memcpy(&scale, row + mk_q8_scales(n) + 2 * (l / MK_Q8_GROUP), sizeof scale);
    return (double)(int8_t)row[l] * (double)mk_from_bf16(scale);
}

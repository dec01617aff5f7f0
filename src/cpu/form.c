#include "cpu/form.h"

#include <string.h>

#define ALIGN 64

static bool is_same(const mc_form *a, const mc_form *b) {
    return a->kind == b->kind && a->arrange == b->arrange && a->group == b->group &&
           a->max == b->max && a->planes == b->planes;
}

const mc_form *mc_forms_find(mc_forms *forms, const mc_form *wanted) {
    int f = 0;
    while (f < forms->n && !is_same(&forms->all[f], wanted))
        f++;
    if (f == forms->n) forms->all[forms->n++] = *wanted;
    forms->all[f].winograd |= wanted->winograd;
    return &forms->all[f];
}

/* ---- memory ---- */

size_t mc_scratch_pad(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void *mc_scratch_cut(mc_scratch *from, int64_t n, size_t item) {
    size_t begin = from->bytes;
    from->bytes += mc_scratch_pad((size_t)n * item);
    return from->block ? from->block + begin : NULL;
}

static void cut_codes(mc_form *form, int64_t rows, int64_t k, mc_scratch *from) {
    int64_t groups = rows * (k / form->group);
    mk_xrows *codes = &form->codes;
    *codes = (mk_xrows){.k = k, .group = form->group};
    codes->scales = mc_scratch_cut(from, groups, sizeof *codes->scales);
    codes->sums = mc_scratch_cut(from, groups, sizeof *codes->sums);
    if (form->winograd) codes->winograd = mc_scratch_cut(from, groups, sizeof *codes->winograd);
    codes->codes = mc_scratch_cut(from, rows * k, sizeof *codes->codes);
}

void mc_forms_cut(mc_forms *forms, int64_t rows, int64_t k, mc_scratch *from) {
    for (int f = 0; f < forms->n; f++) {
        mc_form *form = &forms->all[f];
        if (form->kind == MC_FORM_ARRANGED) {
            form->arranged = mc_scratch_cut(from, rows * k, sizeof *form->arranged);
            form->floats = form->arranged;
            form->stride = k;
        } else if (form->kind == MC_FORM_BF16) {
            form->halves_stride = mc_matmul_row_stride(k, sizeof *form->halves);
            form->halves = mc_scratch_cut(from, rows * form->halves_stride, sizeof *form->halves);
        } else if (form->kind == MC_FORM_CODES) {
            cut_codes(form, rows * form->planes, k, from);
        }
    }
}

/* ---- rows ---- */

#define REST 1024 /* elements at a time, a whole number of groups */

/* What a group's codes leave of x. In pairs, each 8 codes are in the order 0 2 4 6 1 3 5 7. */
static void find_rest(int n, const float *restrict x, const int8_t *restrict codes, float scale,
                      bool pairs, float *restrict rest) {
    if (!pairs) {
        for (int l = 0; l < n; l++)
            rest[l] = x[l] - scale * (float)codes[l];
        return;
    }
    for (int l = 0; l < n; l += 8)
        for (int i = 0; i < 4; i++) {
            rest[l + 2 * i] = x[l + 2 * i] - scale * (float)codes[l + i];
            rest[l + 2 * i + 1] = x[l + 2 * i + 1] - scale * (float)codes[l + 4 + i];
        }
}

/* Row r in two planes: codes of x, then of what these leave. */
static void make_planes(const mc_form *form, const mk_kernels *kern, int64_t k, const float *x,
                        int64_t r) {
    const int group = form->group;
    const mk_xrows all = mk_xrows_at(&form->codes, 2 * r);
    mk_xrows to = mk_xrows_at(&all, 1); /* moves on over its row */
    float rest[REST];
    kern->int8_quantize(1, x, k, form->max, &all);
    for (int64_t l = 0; l < k; l += to.k, to = mk_xrows_at(&to, 1)) {
        to.k = k - l < REST ? k - l : REST;
        for (int64_t i = l; i < l + to.k; i += group)
            find_rest(group, x + i, all.codes + i, all.scales[i / group], mk_in_pairs(form->max),
                      rest + i - l);
        kern->int8_quantize(1, rest, to.k, form->max, &to);
    }
}

static void make(const mc_form *form, const mk_kernels *kern, int64_t k, const float *x,
                 int64_t stride, int64_t first, int64_t n) {
    if (form->kind == MC_FORM_CODES && form->planes == 2) {
        for (int64_t r = first; r < first + n; r++, x += stride)
            make_planes(form, kern, k, x, r);
        return;
    }
    if (form->kind == MC_FORM_CODES) {
        mk_xrows to = mk_xrows_at(&form->codes, first);
        kern->int8_quantize(n, x, stride, form->max, &to);
        return;
    }
    for (int64_t r = first; r < first + n; r++, x += stride) {
        if (form->kind == MC_FORM_ARRANGED)
            form->arrange(k, x, form->arranged + r * form->stride);
        else if (form->kind == MC_FORM_BF16)
            kern->narrow_bf16(k, x, form->halves + r * form->halves_stride);
    }
}

void mc_forms_make(const mc_forms *forms, const mk_kernels *kern, int64_t k, const float *x,
                   int64_t stride, int64_t first, int64_t n) {
    for (int f = 0; f < forms->n; f++)
        make(&forms->all[f], kern, k, x, stride, first, n);
}

static void copy_codes(const mk_xrows *all, int64_t from, int64_t to) {
    const mk_xrows x = mk_xrows_at(all, from), y = mk_xrows_at(all, to);
    size_t groups = (size_t)(all->k / all->group);
    memcpy(y.codes, x.codes, (size_t)all->k);
    memcpy(y.scales, x.scales, groups * sizeof *x.scales);
    memcpy(y.sums, x.sums, groups * sizeof *x.sums);
    if (x.winograd) memcpy(y.winograd, x.winograd, groups * sizeof *x.winograd);
}

static void copy(const mc_form *form, int64_t k, int64_t from, int64_t to) {
    if (form->kind == MC_FORM_CODES)
        for (int i = 0; i < form->planes; i++)
            copy_codes(&form->codes, from * form->planes + i, to * form->planes + i);
    else if (form->kind == MC_FORM_BF16)
        memcpy(form->halves + to * form->halves_stride, form->halves + from * form->halves_stride,
               (size_t)k * sizeof *form->halves);
    else if (form->kind == MC_FORM_ARRANGED)
        memcpy(form->arranged + to * form->stride, form->arranged + from * form->stride,
               (size_t)k * sizeof *form->arranged);
}

void mc_forms_copy(const mc_forms *forms, int64_t k, int64_t from, int64_t to) {
    for (int f = 0; f < forms->n; f++)
        copy(&forms->all[f], k, from, to);
}

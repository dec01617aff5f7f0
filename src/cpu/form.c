#include "cpu/form.h"

#include <string.h>

#define ALIGN 64

static bool is_same(const mc_form *a, const mc_form *b) {
    return a->kind == b->kind && a->arrange == b->arrange && a->group == b->group &&
           a->max == b->max;
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
            cut_codes(form, rows, k, from);
        }
    }
}

/* ---- rows ---- */

static void make(const mc_form *form, const mk_kernels *kern, int64_t k, const float *x,
                 int64_t stride, int64_t first, int64_t n) {
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
        copy_codes(&form->codes, from, to);
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

/* The CPU device's kernels: one function for each row of cpu/eval_list.h. */
#ifndef CPU_EVAL_H
#define CPU_EVAL_H

#include "cpu/stage.h"

#define EVAL(op, fn) mica_status fn(const mc_call *call);
#define STAGE(op, fn, by_row) mica_status fn(const mc_call *call, mc_stage *stage);
#include "cpu/eval_list.h"

/* mc_step_ops.prepares and prepare: weights of products of integers, and of convolutions. */
mc_prepare mc_integer_prepares(const mc_call *call);
void mc_integer_prepare(const mc_call *call, void *to);
mc_prepare mc_conv_prepares(const mc_call *call);
void mc_conv_prepare(const mc_call *call, const mc_prepare *what, void *scratch, void *to);

/* Whether a product of integers is scaled, and its kernel rounds where the steps behind it do. */
bool mc_integer_rounds(const mc_call *call);

/* mc_backend.kernel_choice */
mc_kernel_choice mc_sdpa_choice(const mk_kernels *kern, mica_dtype k);

#endif

/* Convolutions with filters of 3 x 3 by Winograd's F(2 x 2, 3 x 3): 16 products for 4 results where
 * there are 36 (conv_list.h). Whether one is computed so depends on shapes alone, those of an
 * image: a result has the same bits in each batch. */
#ifndef CPU_WINOGRAD_H
#define CPU_WINOGRAD_H

#include "cpu/cpu.h"

/* mc_prepare.form of filters: panels of each group are the number of groups. */
#define MC_FORM_WINOGRAD UINT64_C(0)

bool mc_winograd_fits(const mc_call *call);
mica_status mc_winograd_eval(const mc_call *call);

/* mc_step_ops.prepares and prepare, of a call that fits. */
mc_prepare mc_winograd_prepares(const mc_call *call);
void mc_winograd_prepare(const mc_call *call, const mc_prepare *what, void *scratch, void *to);

#endif

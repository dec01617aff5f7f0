/* What the system reports about an ARM processor: has_arm.linux.c, has_arm.darwin.c,
 * has_arm.windows.c. */
#ifndef CPU_KERN_HAS_ARM_H
#define CPU_KERN_HAS_ARM_H

#include <stdbool.h>
#include <stdint.h>

bool mk_arm_has_dotprod(void); /* FEAT_DotProd */
bool mk_arm_has_i8mm(void);    /* FEAT_I8MM */
/* MIDR_EL1, which names the core: the one that asks, for a machine may have several. 0: the system
 * does not tell. */
uint64_t mk_arm_midr(void);

#endif

/* The parts of the quantised family: each overlays the kernels it has. */
#ifndef CPU_KERN_QUANT_H
#define CPU_KERN_QUANT_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_quant_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

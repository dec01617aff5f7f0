/* The parts of the dense family: each overlays the kernels it has. */
#ifndef CPU_KERN_DENSE_H
#define CPU_KERN_DENSE_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_dense_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

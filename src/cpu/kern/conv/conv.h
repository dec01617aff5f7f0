/* The kernels of the conv family by instruction set: each overlays those it has. */
#ifndef CPU_KERN_CONV_CONV_H
#define CPU_KERN_CONV_CONV_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_conv_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

/* The kernels of the integer family by instruction set: each overlays those it has. */
#ifndef CPU_KERN_INTEGER_INTEGER_H
#define CPU_KERN_INTEGER_INTEGER_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_integer_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

/* The files of the elem family. Each overlays the kernels that it has. */
#ifndef CPU_KERN_ELEM_ELEM_H
#define CPU_KERN_ELEM_ELEM_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_elem_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

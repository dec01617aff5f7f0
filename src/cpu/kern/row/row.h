/* The files of the row family. Each overlays the kernels that it has. */
#ifndef CPU_KERN_ROW_ROW_H
#define CPU_KERN_ROW_ROW_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_row_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

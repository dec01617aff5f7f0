/* The files of the scan family. Each overlays the kernels that it has. */
#ifndef CPU_KERN_SCAN_SCAN_H
#define CPU_KERN_SCAN_SCAN_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_scan_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

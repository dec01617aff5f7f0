/* The files of the fft family. Each overlays the kernels that it has. */
#ifndef CPU_KERN_FFT_FFT_H
#define CPU_KERN_FFT_FFT_H

#include "cpu/kern/kern.h"

#define ISA(name) void mk_fft_##name(mk_kernels *kernels);
#include "cpu/kern/isa_list.h"

#endif

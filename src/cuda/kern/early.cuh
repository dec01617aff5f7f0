/* Kernels that begin before the one before them has ended, where a GPU can (from Hopper on): what
 * they read of constants is on its way by then. */
#ifndef CUDA_KERN_EARLY_CUH
#define CUDA_KERN_EARLY_CUH

/* Lets the kernel behind this one begin, once all blocks have come here or ended. */
static __device__ inline void let_next_begin() {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Until all that was started before this kernel is done, and what it wrote can be read. Each kernel
 * that begins early waits, also where it reads nothing: those behind it wait for it alone. */
static __device__ inline void wait_for_last() {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif

#include "cuda/image.h"

/* MICA_CUDA_IMAGES is the folder of the fat binaries. */
#ifdef MICA_CUDA_IMAGES
#define FILE_ROW(name)                                                                      \
    __asm__(".section .rodata\n.balign 64\nmc_cuda_" #name ":\n.incbin \"" MICA_CUDA_IMAGES \
            "/" #name ".fatbin\"\n.byte 0\n.previous");                                     \
    extern const unsigned char mc_cuda_##name[];
#include "cuda/kern/file_list.h"
#define FILE_ROW(name) {mc_cuda_##name, 1},
#else
#define FILE_ROW(name) {(const unsigned char *)"", 0},
#endif

const mc_cuda_image mc_cuda_images[MC_CUDA_FILES] = {
#include "cuda/kern/file_list.h"
};

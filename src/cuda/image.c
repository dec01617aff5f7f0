#include "cuda/image.h"

#include "base/embed.h"

enum { OWN_SHARED, ALL_SHARED };

/* MICA_CUDA_IMAGES is the folder of the fat binaries. */
#ifdef MICA_CUDA_IMAGES
#define FILE_ROW(name, SHARED)                                                                     \
    __asm__(MC_EMBED_BEGIN ".balign 64\nmc_cuda_" #name ":\n.incbin \"" MICA_CUDA_IMAGES "/" #name \
                           ".fatbin\"\n.byte 0\n" MC_EMBED_END);                                   \
    extern const unsigned char mc_cuda_##name[];
#include "cuda/kern/file_list.h"
#define FILE_ROW(name, SHARED) {mc_cuda_##name, 1, SHARED},
#else
#define FILE_ROW(name, SHARED) {(const unsigned char *)"", 0, SHARED},
#endif

const mc_cuda_image mc_cuda_images[MC_CUDA_FILES] = {
#include "cuda/kern/file_list.h"
};

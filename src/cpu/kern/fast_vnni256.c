#define VPDPBUSD "%{evex%} vpdpbusd"
#include "cpu/kern/fast_vnni_text.h"

void mk_fast_vnni256(mk_kernels *kernels) {
    fill(kernels);
}

#define VPDPBUSD "%{vex%} vpdpbusd"
#include "cpu/kern/fast_vnni_text.h"

void mk_fast_avxvnni(mk_kernels *kernels) {
    fill(kernels);
}

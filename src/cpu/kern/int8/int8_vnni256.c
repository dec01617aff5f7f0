#define VPDPBUSD "%{evex%} vpdpbusd"
#include "cpu/kern/int8/int8_vnni_tmpl.h"

void mk_fast_vnni256(mk_kernels *kernels) {
    fill(kernels);
}

#define VPDPBUSD "%{evex%} vpdpbusd"
#include "cpu/kern/int8/int8_vnni_tmpl.h"

void mk_int8_vnni256(mk_kernels *kernels) {
    fill(kernels);
}

#define VPDPBUSD "%{vex%} vpdpbusd"
#include "cpu/kern/int8/int8_vnni_tmpl.h"

void mk_int8_avxvnni(mk_kernels *kernels) {
    fill(kernels);
}

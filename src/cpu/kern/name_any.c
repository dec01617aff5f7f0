#include "cpu/kern/kern.h"

void mk_cpu_name(char text[64]) {
    memcpy(text, "CPU", sizeof "CPU");
}

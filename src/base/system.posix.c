#define _POSIX_C_SOURCE 200809L

#include "base/system.h"

#include <time.h>

uint64_t mc_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

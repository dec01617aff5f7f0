/* What the system tells: the monotonic clock, and the memory that this process may use. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <stdint.h>

uint64_t mc_now_us(void);       /* microseconds since some fixed moment */
uint64_t mc_memory_bytes(void); /* physical memory that this process may use (cgroup limit too) */

#endif

/* What the system tells and gives: the monotonic clock, the memory that this process may use, and
 * threads. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <pthread.h>
#include <stdint.h>

uint64_t mc_now_us(void);       /* microseconds since some fixed moment */
uint64_t mc_memory_bytes(void); /* physical memory that this process may use (cgroup limit too) */

/* Starts a thread of the library's own. It blocks all signals: they go to the program's threads.
 * Returns 0 or an errno. */
int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif

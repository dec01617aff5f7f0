/* What the system tells and gives: the clocks, the memory that this process may use, large
 * pages, and threads. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <mica/api.h>

MICA_BEGIN

uint64_t mc_now_us(void);           /* microseconds since some fixed moment */
bool mc_local_time(struct tm *now); /* the calendar's; false where it is not known */
uint64_t mc_memory_bytes(void); /* physical memory that this process may use (cgroup limit too) */

/* Memory for a table that is read at random, freed with mc_free: a large one lies in large pages
 * where the system gives them. Uninitialised; NULL: no memory. */
void *mc_table_alloc(size_t bytes);
/* Memory straight from the system, zeroed, in whole pages, which go back to it at once: large
 * blocks that come and go in a heap leave holes that the next ones, somewhat larger, do not fit
 * into. Pages are large where the system gives them. bytes > 0, and the same for both. NULL: no
 * memory. */
void *mc_pages_alloc(size_t bytes);
void mc_pages_free(void *memory, size_t bytes);
/* Asks for large pages under memory that nothing has touched yet. A hint: without effect where the
 * system gives none. */
void mc_prefer_large_pages(void *memory, size_t bytes);

/* Pages that the calling thread is the first to touch, also of files, come from all memory nodes on
 * which we compute, in turns, until mc_pages_near: for what one thread reads and all will use.
 * False, and nothing to be undone: there is one node, the program was started with a policy of its
 * own (numactl), or the system refuses. */
bool mc_pages_spread(void);
void mc_pages_near(void);

/* CPUs that this process may use, and cores, of which a CPU may be one of several threads: affinity
 * mask and cgroup quota, at least 1. */
int mc_cpu_count(void);
int mc_core_count(void);

/* Starts a thread of the library's own, with 4 MiB of stack at least, where some systems give their
 * threads 128 kB. It blocks all signals: they go to the program's threads.
 * Returns 0 or an errno. */
int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

MICA_END

#endif

/* The operating system: clocks, the memory and CPUs that this process may use, pages, threads, how
 * its paths are written. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <mica/api.h>

MICA_BEGIN

uint64_t mc_now_us(void);                    /* microseconds since a fixed moment */
uint64_t mc_thread_cpu_us(void);             /* that this thread ran; 0: not known */
bool mc_local_time(struct tm *now);          /* date and time; false: not known */
void mc_host_name(char *text, size_t bytes); /* of this machine, cut to fit; "?": not known */
uint64_t mc_memory_bytes(void); /* physical memory that this process may use (cgroup limit too) */

/* Allocates memory for a table that is read at random, freed with mc_free. A large table is in
 * large pages if the system has them. Uninitialised; NULL: no memory. */
void *mc_table_alloc(size_t bytes);
/* Allocates zeroed whole pages from the system, and gives them back to it. In a heap, large blocks
 * that come and go would leave holes that the next, slightly larger blocks do not fit into. Pages
 * are large if the system has them. bytes > 0, the same for both calls. NULL: no memory. */
void *mc_pages_alloc(size_t bytes);
void mc_pages_free(void *memory, size_t bytes);
/* Asks for large pages for memory that was not touched yet. A hint: the system may ignore it. */
void mc_prefer_large_pages(void *memory, size_t bytes);

/* Until mc_pages_local, pages that the calling thread touches first, also those of files, are
 * interleaved over all memory nodes. That is for data that one thread reads from disk and all
 * threads use. Returns false, with nothing to undo, if there is one node, if the program was
 * started with a memory policy (numactl), or if the system refuses. */
bool mc_pages_interleave(void);
void mc_pages_local(void);

/* The number of CPUs (hardware threads) and of cores that this process may use, by affinity mask
 * and cgroup quota; at least 1. */
int mc_cpu_count(void);
int mc_core_count(void);

/* Whether the byte divides the names of a path: a slash, on Windows a backslash, too. */
bool mc_is_slash(char byte);
/* How much of a path says where it begins: "/", on Windows also "C:/". 0: in the current folder. */
size_t mc_root_bytes(const char *path);

/* Waits until the disk itself has what was written to a file or folder. False: errno says why. */
bool mc_sync(int fd);

/* Marks a thread that will start as one whose work a user waits for. A hint. */
void mc_thread_hurry(pthread_attr_t *attr);
/* Starts a thread with a stack of at least 4 MiB; the default of some systems is 128 kB. The thread
 * blocks all signals but those of its own faults, so that the program's own threads get them.
 * Returns 0 or an errno. */
int mc_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

MICA_END

#endif

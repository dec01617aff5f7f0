/* Memory nodes. A machine of several sockets has memory at each, which the CPUs there read fastest.
 *
 * What is known is which nodes have CPUs that this process may use. Where the system tells nothing,
 * or what does not fit together, there is one node; then nothing is bound and no pages are spread.
 *
 * Source: Linux, Documentation/ABI/stable/sysfs-devices-node and sysfs-devices-system-cpu. */
#ifndef BASE_NUMA_H
#define BASE_NUMA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MC_MAX_CPUS 8192 /* Linux takes no more, and no more nodes */
#define MC_MAX_NODES 64  /* with CPUs of ours */

/* A set of CPUs, or of nodes by the system's numbers, as system calls take it. */
typedef struct mc_bits {
    unsigned long words[MC_MAX_CPUS / 8 / sizeof(unsigned long)];
} mc_bits;

typedef struct mc_numa {
    int nodes;              /* with CPUs that we may use, in order of their numbers; 1 or more */
    int cpus[MC_MAX_NODES]; /* of a node that we may use; set where there are several nodes */
    mc_bits usable;         /* CPUs */
    uint8_t node_of[MC_MAX_CPUS]; /* of each usable one, 0 .. nodes - 1 */
    mc_bits memory;               /* those nodes that have memory: the system's numbers */
    void (*bind)(pthread_t thread, const mc_bits *cpus); /* what cannot be done is not */
} mc_numa;

int mc_bits_count(const mc_bits *bits);
bool mc_bits_has(const mc_bits *bits, int i);
void mc_bits_add(mc_bits *bits, int i);

/* The nodes of this machine; one where the environment has MICA_NUMA=off. */
void mc_numa_here(mc_numa *numa);

/* The nodes that root/sys/devices/system/node tells of; `bind` is NULL. root is "", or in tests a
 * folder that looks like a Linux system. */
void mc_numa_read(const char *root, const mc_bits *usable, mc_numa *numa);

/* The cores that the usable CPUs are of, by root/sys/devices/system/cpu: CPUs that share one count
 * once. A CPU of which it does not tell is a core. */
int mc_numa_cores(const char *root, const mc_bits *usable);

/* The node of a worker of `threads`: each node has workers by the number of its CPUs, and those of
 * a node follow one another, as do their shares of the rows of a matrix. */
int mc_numa_node_of_worker(const mc_numa *numa, int worker, int threads);

/* The usable CPUs of a node. */
mc_bits mc_numa_cpus_of(const mc_numa *numa, int node);

#endif

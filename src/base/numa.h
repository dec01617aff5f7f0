/* Memory (NUMA) nodes. A machine of several sockets has memory at each socket, which the CPUs there
 * read fastest.
 *
 * mc_numa lists the nodes with CPUs that this process may use. If the system gives no data or
 * inconsistent data, there is one node: threads are not bound and pages not spread.
 *
 * Source: Linux, Documentation/ABI/stable/sysfs-devices-node and sysfs-devices-system-cpu. */
#ifndef BASE_NUMA_H
#define BASE_NUMA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MC_MAX_CPUS 8192 /* Linux has no more CPUs, and no more nodes */
#define MC_MAX_NODES 64  /* nodes with usable CPUs */

/* A set of CPUs or of nodes, by the system's numbers, in the layout of system calls. */
typedef struct mc_bits {
    unsigned long words[MC_MAX_CPUS / 8 / sizeof(unsigned long)];
} mc_bits;

typedef struct mc_numa {
    int nodes;              /* nodes with usable CPUs, sorted by the system's numbers; 1 or more */
    int cpus[MC_MAX_NODES]; /* number of usable CPUs of a node; set if there are several nodes */
    mc_bits usable;         /* CPUs that the process may use */
    uint8_t node_of[MC_MAX_CPUS]; /* node of each usable CPU, 0 .. nodes - 1 */
    mc_bits memory;               /* of these, nodes with memory, by the system's numbers */
    void (*bind)(pthread_t thread, const mc_bits *cpus); /* a failure is ignored */
} mc_numa;

int mc_bits_count(const mc_bits *bits);
bool mc_bits_has(const mc_bits *bits, int i);
void mc_bits_add(mc_bits *bits, int i);

/* The nodes of this machine; one if the environment variable MICA_NUMA is off. */
void mc_numa_here(mc_numa *numa);

/* The nodes that root/sys/devices/system/node lists; `bind` is NULL. root is "", in tests a folder
 * with such files. */
void mc_numa_read(const char *root, const mc_bits *usable, mc_numa *numa);

/* The number of cores of the usable CPUs, by root/sys/devices/system/cpu: CPUs (hardware threads)
 * of one core count once. A CPU without such data counts as a core. Cores of less than half the
 * fastest's speed do not count: they would delay a region. */
int mc_numa_cores(const char *root, const mc_bits *usable);

/* The node of a worker of `threads`. Each node has workers in proportion to its CPUs. The workers
 * of a node have consecutive numbers, and so do their shares of a matrix's rows. */
int mc_numa_node_of_worker(const mc_numa *numa, int worker, int threads);

/* The usable CPUs of a node. */
mc_bits mc_numa_cpus_of(const mc_numa *numa, int node);

#endif

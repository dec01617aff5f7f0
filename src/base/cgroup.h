/* The limits that Linux control groups (v1 and v2) set on this process.
 *
 * `root` stands before every path that is read: "" for the running system; tests give a folder that
 * looks like one. A limit may be set on any group above ours too; the least counts. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

/* Cores by the quota of CPU time, rounded up and at least 1; 0: no quota. */
int mc_cgroup_cpus(const char *root);

/* The memory limit in bytes; UINT64_MAX: none. */
uint64_t mc_cgroup_memory_bytes(const char *root);

#endif

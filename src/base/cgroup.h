/* The limits that Linux control groups (v1 and v2) set on this process.
 *
 * `root` is put before every path that is read: "" for the running system, in tests a folder with
 * such files. Groups above the process's own may have limits, too; the smallest applies. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdint.h>

/* The quota of CPU time in cores, rounded up, at least 1; 0: no quota. */
int mc_cgroup_cpus(const char *root);

/* The memory limit in bytes; UINT64_MAX: none. */
uint64_t mc_cgroup_memory_bytes(const char *root);

#endif

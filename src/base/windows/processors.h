/* What Windows tells of processors, as GetLogicalProcessorInformationEx writes it. A CPU's number
 * is 64 times that of its group, and its own in the group. */
#ifndef BASE_WINDOWS_PROCESSORS_H
#define BASE_WINDOWS_PROCESSORS_H

#include "base/numa.h"

#include <stddef.h>

/* Finds the CPUs of the fastest kind of cores: slow ones would delay a region.
 *
 *  rows     of RelationProcessorCore
 *  allowed  other CPUs do not count. NULL: all may be used
 *  returns  their number of cores; 0: there is none */
int mc_processor_cores(const char *rows, size_t bytes, const mc_bits *allowed, mc_bits *usable);

/* Sets the nodes of numa->usable. A node has CPUs of one group, as a thread's affinity has.
 *
 *  rows  of RelationNumaNode */
void mc_processor_nodes(const char *rows, size_t bytes, mc_numa *numa);

#endif

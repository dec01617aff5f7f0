#include "base/windows/processors.h"

#include "base/windows/posix.h"

#include <string.h>

enum { GROUP_CPUS = 64 };

/* The CPUs of a group that are among others; NULL: all of them. */
static void add_cpus(const GROUP_AFFINITY *from, const mc_bits *among, mc_bits *out) {
    for (int i = 0; i < GROUP_CPUS; i++) {
        int cpu = from->Group * GROUP_CPUS + i;
        if (from->Mask >> i & 1 && cpu < MC_MAX_CPUS && (!among || mc_bits_has(among, cpu)))
            mc_bits_add(out, cpu);
    }
}

int mc_processor_cores(const char *rows, size_t bytes, const mc_bits *allowed, mc_bits *usable) {
    int fastest = -1, cores = 0;
    *usable = (mc_bits){0};
    for (size_t at = 0; at < bytes;) {
        const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *row = (const void *)(rows + at);
        const PROCESSOR_RELATIONSHIP *core = &row->Processor;
        mc_bits own = {0};
        at += row->Size;
        add_cpus(core->GroupMask, allowed, &own);
        if (core->EfficiencyClass < fastest || mc_bits_count(&own) == 0) continue;
        if (core->EfficiencyClass > fastest) {
            *usable = (mc_bits){0};
            cores = 0;
        }
        fastest = core->EfficiencyClass;
        add_cpus(core->GroupMask, allowed, usable);
        cores++;
    }
    return cores;
}

/* Makes a node of CPUs that have none yet, if there are any. False: there are too many nodes. */
static bool add_node(const GROUP_AFFINITY *from, mc_bits *left, mc_numa *numa) {
    mc_bits own = {0};
    add_cpus(from, left, &own);
    int count = mc_bits_count(&own);
    if (count == 0) return true;
    if (numa->nodes == MC_MAX_NODES) return false;
    for (int cpu = 0; cpu < MC_MAX_CPUS; cpu++)
        if (mc_bits_has(&own, cpu)) numa->node_of[cpu] = (uint8_t)numa->nodes;
    for (size_t i = 0; i < sizeof own.words / sizeof *own.words; i++)
        left->words[i] &= ~own.words[i];
    numa->cpus[numa->nodes++] = count;
    return true;
}

void mc_processor_nodes(const char *rows, size_t bytes, mc_numa *numa) {
    mc_bits left = numa->usable;
    bool whole = true;
    numa->nodes = 0;
    for (size_t at = 0; whole && at < bytes;) {
        const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *row = (const void *)(rows + at);
        at += row->Size;
        whole = add_node(&row->NumaNode.GroupMask, &left, numa);
    }
    /* Of a node with several groups a row may name the first alone. */
    for (int group = 0; whole && group < MC_MAX_CPUS / GROUP_CPUS; group++)
        whole =
            add_node(&(GROUP_AFFINITY){.Mask = ~(KAFFINITY)0, .Group = (WORD)group}, &left, numa);
    if (!whole || numa->nodes < 1) numa->nodes = 1;
}

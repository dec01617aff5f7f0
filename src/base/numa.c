#include "base/numa.h"

#include <stdio.h>

#define SYSTEM "/sys/devices/system"
#define PATH_BYTES 1024
#define WORD_BITS ((int)(8 * sizeof(unsigned long)))
#define WORDS (MC_MAX_CPUS / WORD_BITS)

/* ---- sets ---- */

int mc_bits_count(const mc_bits *bits) {
    int count = 0;
    for (int i = 0; i < WORDS; i++)
        count += __builtin_popcountl(bits->words[i]);
    return count;
}

bool mc_bits_has(const mc_bits *bits, int i) {
    return (bits->words[i / WORD_BITS] >> i % WORD_BITS & 1) != 0;
}

void mc_bits_add(mc_bits *bits, int i) {
    bits->words[i / WORD_BITS] |= 1ul << i % WORD_BITS;
}

/* ---- reading ---- */

/* Reads a number below MC_MAX_CPUS that begins with the character *next; -1: there is none. */
static int read_number(FILE *file, int *next) {
    int n = -1;
    for (; *next >= '0' && *next <= '9'; *next = getc(file)) {
        n = (n < 0 ? 0 : n) * 10 + (*next - '0');
        if (n >= MC_MAX_CPUS) return -1;
    }
    return n;
}

/* Parses a line such as "0-3,8", or an empty one. False: malformed. */
static bool parse_list(FILE *file, mc_bits *out) {
    int next = getc(file);
    while (next != '\n' && next != EOF) {
        int first = read_number(file, &next), last = first;
        if (next == '-') {
            next = getc(file);
            last = read_number(file, &next);
        }
        if (first < 0 || last < first) return false;
        for (int i = first; i <= last; i++)
            mc_bits_add(out, i);
        if (next == ',')
            next = getc(file);
        else if (next != '\n' && next != EOF)
            return false;
    }
    return true;
}

static FILE *open_in(const char *root, const char *name) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s" SYSTEM "/%s", root, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
}

static bool read_list(const char *root, const char *name, mc_bits *out) {
    *out = (mc_bits){0};
    FILE *file = open_in(root, name);
    if (!file) return false;
    bool good = parse_list(file, out);
    fclose(file);
    return good;
}

static bool has_memory(const char *root, int id) {
    char name[64];
    unsigned long long kib = 0;
    snprintf(name, sizeof name, "node/node%d/meminfo", id);
    FILE *file = open_in(root, name);
    if (!file) return false;
    bool got = fscanf(file, "Node %*d MemTotal: %llu", &kib) == 1;
    fclose(file);
    return got && kib > 0;
}

/* Adds the node of that number if it has CPUs that the process may use. `left` are the usable CPUs
 * of no node so far. False: the system's data is inconsistent, or there are too many nodes. */
static bool add_node(const char *root, int id, mc_bits *left, mc_numa *numa) {
    char name[64];
    mc_bits cpus;
    snprintf(name, sizeof name, "node/node%d/cpulist", id);
    if (!read_list(root, name, &cpus)) return false;
    int node = numa->nodes, count = 0;
    for (int i = 0; i < WORDS; i++) {
        cpus.words[i] &= numa->usable.words[i];
        if (cpus.words[i] & ~left->words[i]) return false; /* a CPU of two nodes */
        left->words[i] &= ~cpus.words[i];
    }
    count = mc_bits_count(&cpus);
    if (count == 0) return true; /* the node has no usable CPU */
    if (node == MC_MAX_NODES) return false;
    for (int i = 0; i < MC_MAX_CPUS; i++)
        if (mc_bits_has(&cpus, i)) numa->node_of[i] = (uint8_t)node;
    if (has_memory(root, id)) mc_bits_add(&numa->memory, id);
    numa->cpus[node] = count;
    numa->nodes++;
    return true;
}

static bool read_nodes(const char *root, mc_numa *numa) {
    mc_bits online, left = numa->usable;
    if (!read_list(root, "node/online", &online)) return false;
    for (int id = 0; id < MC_MAX_CPUS; id++)
        if (mc_bits_has(&online, id) && !add_node(root, id, &left, numa)) return false;
    return numa->nodes > 0 && mc_bits_count(&left) == 0;
}

void mc_numa_read(const char *root, const mc_bits *usable, mc_numa *numa) {
    *numa = (mc_numa){.usable = *usable};
    if (!read_nodes(root, numa) || numa->nodes == 1)
        *numa = (mc_numa){.nodes = 1, .usable = *usable};
}

/* ---- cores ---- */

/* The speed of a CPU beside the machine's fastest, which has 1024. */
static int capacity_of(const char *root, int cpu) {
    char name[64];
    int capacity = 0;
    snprintf(name, sizeof name, "cpu/cpu%d/cpu_capacity", cpu);
    FILE *file = open_in(root, name);
    if (!file) return 1024;
    bool got = fscanf(file, "%5d", &capacity) == 1;
    fclose(file);
    return got && capacity > 0 ? capacity : 1024;
}

int mc_numa_cores(const char *root, const mc_bits *usable) {
    mc_bits seen = {0}, siblings;
    int cores = 0, fastest = 0;
    for (int cpu = 0; cpu < MC_MAX_CPUS; cpu++) {
        int capacity = mc_bits_has(usable, cpu) ? capacity_of(root, cpu) : 0;
        if (capacity > fastest) fastest = capacity;
    }
    for (int cpu = 0; cpu < MC_MAX_CPUS; cpu++) {
        if (!mc_bits_has(usable, cpu) || mc_bits_has(&seen, cpu)) continue;
        if (2 * capacity_of(root, cpu) < fastest) continue;
        cores++;
        char name[64];
        snprintf(name, sizeof name, "cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (!read_list(root, name, &siblings)) continue;
        for (int i = 0; i < WORDS; i++)
            seen.words[i] |= siblings.words[i];
    }
    return cores;
}

/* ---- workers ---- */

int mc_numa_node_of_worker(const mc_numa *numa, int worker, int threads) {
    if (numa->nodes == 1) return 0;
    int64_t cpu = (int64_t)worker * mc_bits_count(&numa->usable) / threads; /* sorted by node */
    int node = 0;
    while (cpu >= numa->cpus[node])
        cpu -= numa->cpus[node++];
    return node;
}

mc_bits mc_numa_cpus_of(const mc_numa *numa, int node) {
    mc_bits cpus = {0};
    for (int i = 0; i < MC_MAX_CPUS; i++)
        if (mc_bits_has(&numa->usable, i) && numa->node_of[i] == node) mc_bits_add(&cpus, i);
    return cpus;
}

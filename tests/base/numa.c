/* base/numa: memory nodes read from a folder that looks like a Linux system, and who works
 * where. */
#if defined(__linux__)
#define _GNU_SOURCE /* pthread_getaffinity_np */
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "base/numa.h"

#include "base/pool.h"
#include "base/system.h"
#include "support/support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY "Node 0 MemTotal:       65536000 kB\nNode 0 MemFree: 1 kB\n"

/* A node of a fake system; a list of them ends with one that has no cpulist. */
typedef struct fake_node {
    int id;
    const char *cpulist;
    const char *meminfo; /* NULL: no such file */
} fake_node;

typedef struct machine {
    const char *what;
    const char *online; /* nodes; NULL: no such file */
    fake_node nodes[5];
    const char *usable; /* CPUs */
    const char *wanted; /* what describe() says of it */
} machine;

/* "0-1,4" as a set; good input alone. */
static mc_bits bits_of(const char *list) {
    mc_bits bits = {0};
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (; first <= last; first++)
            mc_bits_add(&bits, (int)first);
        list = *end ? end + 1 : end;
    }
    return bits;
}

/* The members of a set, each after a space. */
static void append_bits(char *text, size_t bytes, const mc_bits *bits) {
    for (int i = 0; i < MC_MAX_CPUS; i++) {
        size_t len = strlen(text);
        if (mc_bits_has(bits, i)) snprintf(text + len, bytes - len, " %d", i);
    }
}

/* The CPUs of each node, then the numbers of those with memory: "0 1 | 2 3 | mem 0 1". */
static const char *describe(const mc_numa *numa) {
    static char text[4096];
    text[0] = 0;
    if (numa->nodes == 1) return "one";
    for (int node = 0; node < numa->nodes; node++) {
        mc_bits cpus = mc_numa_cpus_of(numa, node);
        assert_int_equal(mc_bits_count(&cpus), numa->cpus[node]);
        append_bits(text, sizeof text, &cpus);
        strcat(text, " |");
    }
    strcat(text, " mem");
    append_bits(text, sizeof text, &numa->memory);
    return text + 1;
}

static const machine machines[] = {
    {"one node", "0\n", {{0, "0-3\n", MEMORY}}, "0-3", "one"},
    {"two sockets",
     "0-1\n",
     {{0, "0-3\n", MEMORY}, {1, "4-7\n", MEMORY}},
     "0-7",
     "0 1 2 3 | 4 5 6 7 | mem 0 1"},
    {"two sockets, siblings numbered last",
     "0-1\n",
     {{0, "0-1,4-5\n", MEMORY}, {1, "2-3,6-7\n", MEMORY}},
     "0-7",
     "0 1 4 5 | 2 3 6 7 | mem 0 1"},
    {"two sockets, the mask is in one",
     "0-1\n",
     {{0, "0-3\n", MEMORY}, {1, "4-7\n", MEMORY}},
     "5-6",
     "one"},
    {"two sockets, the mask has some of each",
     "0-1\n",
     {{0, "0-3\n", MEMORY}, {1, "4-7\n", MEMORY}},
     "3-5",
     "3 | 4 5 | mem 0 1"},
    {"four nodes, one off line, one with memory alone",
     "0,2-3\n",
     {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}, {2, "\n", MEMORY}, {3, "2\n", MEMORY}},
     "0,2",
     "0 | 2 | mem 0 3"},
    {"sparse numbers",
     "0,8,251-252\n",
     {{0, "0\n", MEMORY}, {8, "8-9\n", MEMORY}, {251, "100\n", MEMORY}, {252, "8191\n", NULL}},
     "0,8-9,100,8191",
     "0 | 8 9 | 100 | 8191 | mem 0 8 251"},
    {"a node without memory",
     "0-1\n",
     {{0, "0\n", MEMORY}, {1, "1\n", "Node 1 MemTotal:       0 kB\n"}},
     "0-1",
     "0 | 1 | mem 0"},
    {"meminfo of another kind",
     "0-1\n",
     {{0, "0\n", "MemTotal: many\n"}, {1, "1\n", ""}},
     "0-1",
     "0 | 1 | mem"},
    {"no list of nodes", NULL, {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"no nodes", "\n", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"nothing written", "", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"a node without its folder", "0-2\n", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"a CPU in two nodes", "0-1\n", {{0, "0-1\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"a CPU in none", "0-1\n", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-2", "one"},
    {"a list backwards", "0-1\n", {{0, "1-0\n", MEMORY}, {1, "2\n", MEMORY}}, "0-2", "one"},
    {"a number too large", "0-1\n", {{0, "0-8192\n", MEMORY}, {1, "\n", MEMORY}}, "0", "one"},
    {"a far larger one", "0-99999999999999999999\n", {{0, "0\n", MEMORY}}, "0", "one"},
    {"words", "0-1\n", {{0, "zero\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"half a range", "0-1\n", {{0, "0-\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"a negative number", "-1\n", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"another separator", "0;1\n", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
    {"no separator", "0 1\n", {{0, "0\n", MEMORY}, {1, "1\n", MEMORY}}, "0-1", "one"},
};

static void write_node(const char *root, const fake_node *node) {
    char *list = test_format("sys/devices/system/node/node%d/cpulist", node->id);
    char *meminfo = test_format("sys/devices/system/node/node%d/meminfo", node->id);
    test_write_below(root, list, node->cpulist);
    if (node->meminfo) test_write_below(root, meminfo, node->meminfo);
    free(list);
    free(meminfo);
}

static void read_machine(const machine *m, mc_numa *numa) {
    char *root = test_temp_dir();
    mc_bits usable = bits_of(m->usable);
    if (m->online) test_write_below(root, "sys/devices/system/node/online", m->online);
    for (const fake_node *node = m->nodes; node->cpulist; node++)
        write_node(root, node);
    mc_numa_read(root, &usable, numa);
    test_temp_dir_remove(root);
}

static void test_machines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        const machine *m = &machines[i];
        mc_numa numa;
        read_machine(m, &numa);
        const char *got = describe(&numa);
        if (strcmp(got, m->wanted) != 0) fail_msg("%s: %s, want %s", m->what, got, m->wanted);
        mc_bits usable = bits_of(m->usable);
        assert_memory_equal(&numa.usable, &usable, sizeof usable);
    }
}

/* More nodes than are told apart are one. */
static void test_many_nodes(void **state) {
    (void)state;
    for (int nodes = MC_MAX_NODES; nodes <= MC_MAX_NODES + 1; nodes++) {
        char *root = test_temp_dir(), *online = test_format("0-%d\n", nodes - 1);
        mc_bits usable = {0};
        mc_numa numa;
        test_write_below(root, "sys/devices/system/node/online", online);
        for (int i = 0; i < nodes; i++) {
            char *cpulist = test_format("%d\n", 3 * i);
            write_node(root, &(fake_node){i, cpulist, MEMORY});
            mc_bits_add(&usable, 3 * i);
            free(cpulist);
        }
        mc_numa_read(root, &usable, &numa);
        assert_int_equal(numa.nodes, nodes > MC_MAX_NODES ? 1 : nodes);
        free(online);
        test_temp_dir_remove(root);
    }
}

/* CPUs that share a core count once, if we may use any of them. */
static void test_cores(void **state) {
    (void)state;
    static const struct {
        const char *siblings[6], *usable; /* of CPU 0 and on; NULL: no such file */
        int cores;
    } cases[] = {
        {{"0\n", "1\n", "2\n", "3\n"}, "0-3", 4},
        {{"0-1\n", "0-1\n", "2-3\n", "2-3\n"}, "0-3", 2},
        {{"0,3\n", "1,4\n", "2,5\n", "0,3\n", "1,4\n", "2,5\n"}, "0-5", 3},
        {{"0,3\n", "1,4\n", "2,5\n", "0,3\n", "1,4\n", "2,5\n"}, "3-4", 2},
        {{"0,3\n", "1,4\n", "2,5\n", "0,3\n", "1,4\n", "2,5\n"}, "0,2-3", 2},
        {{"0-1\n", "0-1\n", "2\n"}, "0-2", 2}, /* a fast core and a slow one */
        {{NULL}, "0-3", 4},
        {{"0-1\n", "0-1\n", "two\n", "", "4-\n"}, "0-4", 4},
        {{"0-8192\n"}, "0-1", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *root = test_temp_dir();
        mc_bits usable = bits_of(cases[i].usable);
        for (int cpu = 0; cpu < 6; cpu++) {
            if (cases[i].siblings[cpu] == NULL) continue;
            char *name =
                test_format("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
            test_write_below(root, name, cases[i].siblings[cpu]);
            free(name);
        }
        assert_int_equal(mc_numa_cores(root, &usable), cases[i].cores);
        test_temp_dir_remove(root);
    }
}

/* Cores that are far slower than the fastest that we may use do not count. */
static void test_slow_cores(void **state) {
    (void)state;
    static const struct {
        const char *capacities[4], *usable; /* of CPU 0 and on; NULL: no such file */
        int cores;
    } cases[] = {
        {{"1024\n", "1024\n", "446\n", "446\n"}, "0-3", 2},
        {{"446\n", "1024\n", "446\n", "446\n"}, "0-3", 1},
        {{"446\n", "446\n", "1024\n", "1024\n"}, "0-1", 2}, /* the slow ones alone */
        {{"1024\n", "512\n", "511\n", "800\n"}, "0-3", 3},
        {{"1024\n", NULL, "300\n", NULL}, "0-3", 3},
        {{"many\n", "0\n", "-5\n", "300\n"}, "0-3", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *root = test_temp_dir();
        mc_bits usable = bits_of(cases[i].usable);
        for (int cpu = 0; cpu < 4; cpu++) {
            if (cases[i].capacities[cpu] == NULL) continue;
            char *name = test_format("sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
            test_write_below(root, name, cases[i].capacities[cpu]);
            free(name);
        }
        assert_int_equal(mc_numa_cores(root, &usable), cases[i].cores);
        test_temp_dir_remove(root);
    }
}

/* Whatever the files say, what comes of it fits together: one character of three good files is
 * another, or all of one file are. */
static void test_random_bytes(void **state) {
    (void)state;
    static const char alphabet[] = "0123456789--,,,,\n\n x\xff";
    static const char *const names[] = {"online", "node0/cpulist", "node1/cpulist"};
    static const char *const good[] = {"0-1\n", "0-4\n", "5-9\n"};
    char *root = test_temp_dir();
    mc_bits usable = bits_of("0-9");
    uint32_t seed = 1;
    int several = 0;
    for (int round = 0; round < 600; round++) {
        char text[3][8] = {{0}}, path[64];
        char *changed = text[round % 3];
        for (int i = 0; i < 3; i++)
            strcpy(text[i], good[i]);
        for (int i = 0; i < (round % 2 ? 7 : 1); i++) {
            seed = seed * 1664525u + 1013904223u;
            changed[round % 2 ? i : (int)(seed >> 28) % 4] =
                alphabet[(seed >> 16 & 0xfff) % (sizeof alphabet - 1)];
        }
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "sys/devices/system/node/%s", names[i]);
            test_write_below(root, path, text[i]);
        }
        mc_numa numa;
        mc_numa_read(root, &usable, &numa);
        assert_in_range(numa.nodes, 1, 2);
        several += numa.nodes == 2;
        if (numa.nodes == 2) assert_int_equal(numa.cpus[0] + numa.cpus[1], 10);
    }
    assert_in_range(several, 10, 300);
    test_temp_dir_remove(root);
}

/* ---- workers ---- */

static void test_workers_are_dealt_to_nodes(void **state) {
    (void)state;
    static const struct {
        int machine; /* of the table above */
        int threads;
        const char *nodes; /* of workers 0, 1, ... */
    } cases[] = {
        {0, 4, "0000"},     {1, 1, "0"},     {1, 2, "01"},    {1, 3, "001"},
        {1, 8, "00001111"}, {1, 5, "00011"}, {2, 4, "0011"},  {1, 16, "0000000011111111"},
        {4, 3, "011"},      {4, 2, "01"},    {6, 5, "01123"}, {6, 2, "01"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mc_numa numa;
        read_machine(&machines[cases[i].machine], &numa);
        for (int w = 0; w < cases[i].threads; w++)
            assert_int_equal(mc_numa_node_of_worker(&numa, w, cases[i].threads),
                             cases[i].nodes[w] - '0');
    }
}

static mc_bits bound[16];
static int n_bound;

static void note_bind(pthread_t thread, const mc_bits *cpus) {
    (void)thread;
    bound[n_bound++] = *cpus;
}

/* Worker 0 is the caller's thread, which stays as it is. */
static void test_workers_are_bound_to_their_node(void **state) {
    (void)state;
    static const struct {
        int machine, threads;
        const char *cpus[8]; /* of workers 1, 2, ... */
    } cases[] = {
        {0, 4, {NULL}},
        {3, 4, {NULL}}, /* the user's mask has one node */
        {1, 4, {"0-3", "4-7", "4-7"}},
        {2, 8, {"0-1,4-5", "0-1,4-5", "0-1,4-5", "2-3,6-7", "2-3,6-7", "2-3,6-7", "2-3,6-7"}},
        {4, 3, {"4-5", "4-5"}},
        {1, 1, {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mc_numa numa;
        mc_pool *pool;
        read_machine(&machines[cases[i].machine], &numa);
        numa.bind = note_bind;
        n_bound = 0;
        assert_int_equal(mc_pool_open_on(cases[i].threads, &numa, &pool), MICA_OK);
        mc_pool_close(&pool);
        int want = 0;
        for (; cases[i].cpus[want]; want++) {
            mc_bits cpus = bits_of(cases[i].cpus[want]);
            assert_memory_equal(&bound[want], &cpus, sizeof cpus);
        }
        assert_int_equal(n_bound, want);
    }
}

/* ---- the order in which shares are taken ---- */

enum { TASKS = 120 };

/* All workers hold their first piece until worker `free_one` has done all else. */
typedef struct order {
    int threads, free_one;
    _Atomic int entered, held, done;
    int visits[MC_MAX_NODES], n_visits; /* whose tasks free_one did, neighbours once */
} order;

static void note_order(void *context, int begin, int end, int worker) {
    order *o = context;
    atomic_fetch_add(&o->held, worker == o->free_one ? 0 : end - begin);
    atomic_fetch_add(&o->entered, 1);
    while (atomic_load(&o->entered) < o->threads)
        sched_yield();
    if (worker == o->free_one) {
        int owner = begin / (TASKS / o->threads);
        if (o->n_visits == 0 || o->visits[o->n_visits - 1] != owner)
            o->visits[o->n_visits++] = owner;
        atomic_fetch_add(&o->done, end - begin);
    } else {
        while (atomic_load(&o->done) + atomic_load(&o->held) < TASKS)
            sched_yield();
    }
}

static void test_tasks_are_taken_from_the_same_node_first(void **state) {
    (void)state;
    static const struct {
        int machine, threads;
        const char *order[6]; /* of worker 0, 1, ... */
    } cases[] = {
        {0, 4, {"0123", "1230", "2301", "3012"}},
        {1, 4, {"0123", "1032", "2301", "3210"}},
        {1, 5, {"01234", "12043", "20134", "34012", "43120"}},
        {4, 3, {"012", "120", "210"}},
        {6, 5, {"01234", "12340", "21403", "34012", "40123"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mc_numa numa;
        mc_pool *pool;
        read_machine(&machines[cases[i].machine], &numa);
        numa.bind = note_bind;
        n_bound = 0;
        assert_int_equal(mc_pool_open_on(cases[i].threads, &numa, &pool), MICA_OK);
        for (int w = 0; w < cases[i].threads; w++) {
            order o = {.threads = cases[i].threads, .free_one = w};
            mc_pool_run(pool, TASKS, note_order, &o);
            assert_int_equal(o.n_visits, cases[i].threads);
            for (int v = 0; v < o.n_visits; v++)
                if (o.visits[v] != cases[i].order[w][v] - '0')
                    fail_msg("case %zu, worker %d, visit %d: %d", i, w, v, o.visits[v]);
        }
        mc_pool_close(&pool);
    }
}

/* ---- this machine ---- */

static void test_here(void **state) {
    (void)state;
    mc_numa numa;
    setenv("MICA_NUMA", "off", 1);
    mc_numa_here(&numa);
    assert_int_equal(numa.nodes, 1);
    assert_false(mc_pages_interleave());
    unsetenv("MICA_NUMA");
    mc_numa_here(&numa);
    assert_in_range(numa.nodes, 1, MC_MAX_NODES);
    assert_non_null(numa.bind);
    bool interleaved = mc_pages_interleave();
    if (mc_bits_count(&numa.memory) < 2) assert_false(interleaved);
    if (!interleaved) return;            /* one node, or refused */
    assert_false(mc_pages_interleave()); /* there is a policy now */
    mc_pages_local();
    assert_true(mc_pages_interleave());
    mc_pages_local();
}

#if defined(__linux__)
/* With an affinity mask of one CPU there is one thread and one node; and `bind` sets such a
 * mask. */
static void test_affinity(void **state) {
    (void)state;
    cpu_set_t before, now;
    if (sched_getaffinity(0, sizeof before, &before) != 0) skip(); /* more CPUs than it holds */
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    mc_numa numa;
    mc_bits one = {0};
    mc_bits_add(&one, (int)cpu);
    mc_numa_here(&numa);
    numa.bind(pthread_self(), &one);
    int count = mc_cpu_count(), cores = mc_core_count();
    mc_numa_here(&numa);
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof now, &now), 0);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    if (CPU_EQUAL(&now, &before) && CPU_COUNT(&before) > 1) skip(); /* a sandbox refuses */
    assert_int_equal(CPU_COUNT(&now), 1);
    assert_true(CPU_ISSET(cpu, &now));
    assert_int_equal(count, 1);
    assert_int_equal(cores, 1);
    assert_int_equal(numa.nodes, 1);
    numa.bind(pthread_self(), &(mc_bits){0}); /* refused: nothing happens */
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &before));
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_slow_cores),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_workers_are_dealt_to_nodes),
        cmocka_unit_test(test_workers_are_bound_to_their_node),
        cmocka_unit_test(test_tasks_are_taken_from_the_same_node_first),
        cmocka_unit_test(test_here),
#if defined(__linux__)
        cmocka_unit_test(test_affinity),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

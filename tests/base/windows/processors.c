/* CPUs, cores and nodes by rows as Windows writes them, of machines that are not here. */
#include "support/support.h"

#include "base/system.h"
#include "base/windows/posix.h"
#include "base/windows/processors.h"

#include <string.h>

typedef struct rows {
    char bytes[1 << 14];
    size_t len;
} rows;

static SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *add_row(rows *r, size_t extra) {
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *row = (void *)(r->bytes + r->len);
    assert_true(r->len + sizeof *row + extra <= sizeof r->bytes);
    memset(row, 0, sizeof *row);
    row->Size = (DWORD)(sizeof *row + extra); /* rows are as long as they say */
    r->len += row->Size;
    return row;
}

static void add_core(rows *r, WORD group, KAFFINITY mask, BYTE class) {
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *row = add_row(r, 8);
    row->Relationship = RelationProcessorCore;
    row->Processor.EfficiencyClass = class;
    row->Processor.GroupCount = 1;
    row->Processor.GroupMask[0] = (GROUP_AFFINITY){.Mask = mask, .Group = group};
}

static void add_node(rows *r, DWORD number, WORD group, KAFFINITY mask) {
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *row = add_row(r, 0);
    row->Relationship = RelationNumaNode;
    row->NumaNode.NodeNumber = number;
    row->NumaNode.GroupMask = (GROUP_AFFINITY){.Mask = mask, .Group = group};
}

/* Two fast cores of two CPUs each, four slow ones. */
static void test_fast_cores(void **state) {
    (void)state;
    rows r = {.len = 0};
    mc_bits usable, allowed = {0};
    for (int i = 0; i < 4; i++)
        add_core(&r, 0, (KAFFINITY)1 << i, 0);
    add_core(&r, 0, 0x30, 1);
    add_core(&r, 0, 0xC0, 1);
    assert_int_equal(mc_processor_cores(r.bytes, r.len, NULL, &usable), 2);
    assert_int_equal(mc_bits_count(&usable), 4);
    assert_true(mc_bits_has(&usable, 4) && mc_bits_has(&usable, 7));
    mc_bits_add(&allowed, 7); /* of an affinity mask */
    assert_int_equal(mc_processor_cores(r.bytes, r.len, &allowed, &usable), 1);
    assert_int_equal(mc_bits_count(&usable), 1);
    allowed = (mc_bits){0};
    mc_bits_add(&allowed, 1); /* a program that may use slow ones alone */
    mc_bits_add(&allowed, 2);
    assert_int_equal(mc_processor_cores(r.bytes, r.len, &allowed, &usable), 2);
    assert_int_equal(mc_processor_cores(r.bytes, 0, NULL, &usable), 0);
    assert_int_equal(mc_bits_count(&usable), 0);
}

static int node_of(const mc_numa *numa, int group, int cpu) {
    return numa->node_of[64 * group + cpu];
}

/* Two sockets, a group each; and one of 96 CPUs in two groups, of which a row names the first. */
static void test_groups(void **state) {
    (void)state;
    rows cores = {.len = 0}, two = {.len = 0}, one = {.len = 0};
    static mc_numa numa;
    for (int group = 0; group < 2; group++)
        for (int i = 0; i < 48; i++)
            add_core(&cores, (WORD)group, (KAFFINITY)1 << i, 0);
    add_node(&two, 0, 0, ((KAFFINITY)1 << 48) - 1);
    add_node(&two, 1, 1, ((KAFFINITY)1 << 48) - 1);
    add_node(&one, 0, 0, ((KAFFINITY)1 << 48) - 1);
    assert_int_equal(mc_processor_cores(cores.bytes, cores.len, NULL, &numa.usable), 96);
    for (int i = 0; i < 2; i++) {
        mc_processor_nodes(i ? one.bytes : two.bytes, i ? one.len : two.len, &numa);
        assert_int_equal(numa.nodes, 2);
        assert_int_equal(numa.cpus[0], 48);
        assert_int_equal(numa.cpus[1], 48);
        assert_int_equal(node_of(&numa, 0, 47), 0);
        assert_int_equal(node_of(&numa, 1, 0), 1);
        mc_bits cpus = mc_numa_cpus_of(&numa, 1);
        assert_int_equal(mc_bits_count(&cpus), 48);
        assert_true(mc_bits_has(&cpus, 64));
        assert_int_equal(mc_numa_node_of_worker(&numa, 0, 4), 0);
        assert_int_equal(mc_numa_node_of_worker(&numa, 3, 4), 1);
    }
}

/* Nodes without CPUs that may be used are none. */
static void test_one_node(void **state) {
    (void)state;
    rows r = {.len = 0};
    static mc_numa numa;
    add_node(&r, 0, 0, 0xF);
    add_node(&r, 1, 0, 0xF0);
    add_node(&r, 2, 0, 0); /* memory alone */
    numa.usable = (mc_bits){0};
    mc_bits_add(&numa.usable, 5);
    mc_processor_nodes(r.bytes, r.len, &numa);
    assert_int_equal(numa.nodes, 1);
    assert_int_equal(numa.cpus[0], 1);
}

static void test_here(void **state) {
    (void)state;
    static mc_numa numa;
    mc_numa_here(&numa);
    assert_true(numa.nodes >= 1);
    assert_int_equal(mc_bits_count(&numa.usable), mc_cpu_count());
    assert_true(mc_core_count() >= 1 && mc_core_count() <= mc_cpu_count());
    mc_bits cpus = mc_numa_cpus_of(&numa, 0);
    numa.bind(pthread_self(), &cpus);
    char *pages =
        mc_pages_alloc((size_t)64 << 20); /* in large pages where this user may have them */
    assert_non_null(pages);
    for (size_t i = 0; i < (size_t)64 << 20; i += 4096)
        assert_int_equal(pages[i], 0);
    mc_pages_free(pages, (size_t)64 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_cores),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_one_node),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests_name("base/windows/processors", tests, NULL, NULL);
}

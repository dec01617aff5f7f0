/* base/cgroup: limits read from a folder that looks like a Linux system. */
#include "base/cgroup.h"

#include "support/support.h"

static void test_nothing_there(void **state) {
    (void)state;
    char *root = test_temp_dir();
    assert_int_equal(mc_cgroup_cpus(root), 0);
    assert_true(mc_cgroup_memory_bytes(root) == UINT64_MAX);
    test_write_below(root, "proc/self/cgroup", "garbage\n0\n0:\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    test_write_below(root, "proc/self/cgroup", "0::/gone\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    test_write_below(root, "sys/fs/cgroup/cpu.max", "max 100000\n");
    test_write_below(root, "sys/fs/cgroup/memory.max", "max\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    assert_true(mc_cgroup_memory_bytes(root) == UINT64_MAX);
    test_temp_dir_remove(root);
}

static void test_v2_takes_the_least_above(void **state) {
    (void)state;
    char *root = test_temp_dir();
    test_write_below(root, "proc/self/cgroup", "0::/slice/job\n");
    test_write_below(root, "sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
    test_write_below(root, "sys/fs/cgroup/slice/job/memory.max", "max\n");
    assert_int_equal(mc_cgroup_cpus(root), 4);
    test_write_below(root, "sys/fs/cgroup/slice/cpu.max",
                     "150000 100000\n"); /* 1.5 cores: two threads */
    test_write_below(root, "sys/fs/cgroup/slice/memory.max", "2147483648\n");
    assert_int_equal(mc_cgroup_cpus(root), 2);
    assert_true(mc_cgroup_memory_bytes(root) == 2147483648u);
    test_write_below(root, "sys/fs/cgroup/cpu.max", "10000 100000\n"); /* a tenth of a core */
    assert_int_equal(mc_cgroup_cpus(root), 1);
    test_temp_dir_remove(root);
}

static void test_v1(void **state) {
    (void)state;
    char *root = test_temp_dir();
    test_write_below(
        root, "proc/self/cgroup",
        "12:cpuset:/\n7:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
    test_write_below(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    test_write_below(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    test_write_below(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    assert_true(mc_cgroup_memory_bytes(root) == 9223372036854771712u);
    test_write_below(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n");
    test_write_below(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    test_write_below(root, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1048576\n");
    assert_int_equal(mc_cgroup_cpus(root), 3);
    assert_true(mc_cgroup_memory_bytes(root) == 1048576);
    test_temp_dir_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_v2_takes_the_least_above),
        cmocka_unit_test(test_v1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

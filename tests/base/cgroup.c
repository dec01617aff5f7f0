/* base/cgroup: limits read from a folder that looks like a Linux system. */
#define _POSIX_C_SOURCE 200809L

#include "base/cgroup.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Writes root/path, making the folders on the way. */
static void put(const char *root, const char *path, const char *text) {
    char *full = test_format("%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    test_write_file(full, text, strlen(text));
    free(full);
}

static void test_nothing_there(void **state) {
    (void)state;
    char *root = test_temp_dir();
    assert_int_equal(mc_cgroup_cpus(root), 0);
    assert_true(mc_cgroup_memory_bytes(root) == UINT64_MAX);
    put(root, "proc/self/cgroup", "garbage\n0\n0:\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    put(root, "proc/self/cgroup", "0::/gone\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    put(root, "sys/fs/cgroup/cpu.max", "max 100000\n");
    put(root, "sys/fs/cgroup/memory.max", "max\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    assert_true(mc_cgroup_memory_bytes(root) == UINT64_MAX);
    test_temp_dir_remove(root);
}

static void test_v2_takes_the_least_above(void **state) {
    (void)state;
    char *root = test_temp_dir();
    put(root, "proc/self/cgroup", "0::/slice/job\n");
    put(root, "sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
    put(root, "sys/fs/cgroup/slice/job/memory.max", "max\n");
    assert_int_equal(mc_cgroup_cpus(root), 4);
    put(root, "sys/fs/cgroup/slice/cpu.max", "150000 100000\n"); /* 1.5 cores: two threads */
    put(root, "sys/fs/cgroup/slice/memory.max", "2147483648\n");
    assert_int_equal(mc_cgroup_cpus(root), 2);
    assert_true(mc_cgroup_memory_bytes(root) == 2147483648u);
    put(root, "sys/fs/cgroup/cpu.max", "10000 100000\n"); /* a tenth of a core */
    assert_int_equal(mc_cgroup_cpus(root), 1);
    test_temp_dir_remove(root);
}

static void test_v1(void **state) {
    (void)state;
    char *root = test_temp_dir();
    put(root, "proc/self/cgroup",
        "12:cpuset:/\n7:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(mc_cgroup_cpus(root), 0);
    assert_true(mc_cgroup_memory_bytes(root) == 9223372036854771712u);
    put(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    put(root, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1048576\n");
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

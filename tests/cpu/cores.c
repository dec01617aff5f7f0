/* The cores of 64-bit ARM: by which row of core_list.h each has its distance of prefetches.
 *
 *   test_cpu_cores [NAME]     NAME: the row that this machine's core must have */
#include "support/support.h"

#include "cpu/kern/ahead.h"
#include "cpu/kern/kern.h"

#include <string.h>

static const char *wanted;

/* MIDR_EL1 of machines, with variant and revision. */
static const struct {
    uint64_t midr;
    const char *name;
    int64_t ahead;
} machines[] = {
    {0x413fd0c1, "neoverse_n1", 2048}, /* Graviton2 */
    {0x411fd401, "neoverse_v1", 5120}, /* Graviton3 */
    {0x410fd4f0, "neoverse_v2", 5120}, /* Grace, Graviton4 */
    {0x414fd0b1, "cortex_a76", 3072},  /* Raspberry Pi 5 */
    {0x611f0221, "apple_m", 12288},    /* M1, under Linux */
    {0x61000000, "apple_m", 12288},    /* macOS */
    {0x410fd083, "other", 4096},       /* Cortex-A72 */
    {0, "other", 4096},
};

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        mk_core core = mk_core_of(machines[i].midr);
        assert_string_equal(core.name, machines[i].name);
        assert_int_equal(core.ahead, machines[i].ahead);
    }
}

static void test_this_machine(void **state) {
    (void)state;
    mk_core core = mk_core_find();
    if (wanted) assert_string_equal(core.name, wanted);
    assert_int_equal(mk_core_ahead, core.ahead);
    mk_kernels kernels;
    mk_core_ahead = 0;
    mk_kernels_fill(&kernels, mk_isa_best()); /* finds it, too */
    assert_int_equal(mk_core_ahead, core.ahead);
}

int main(int argc, char **argv) {
    wanted = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

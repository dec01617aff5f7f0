/* The cpu backend: options, choice of kernels, splitting of ranges. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "base/system.h"
#include "cpu/prefetch.h"
#include "cpu/region.h"
#include "graph/attr.h"

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

static void describes_itself(void **state) {
    (void)state;
    void *cpu = NULL;
    assert_int_equal(mc_backend_cpu.open(&(mica_device_options){.threads = 3}, "", &cpu), MICA_OK);
    mica_device_info info = {.struct_bytes = sizeof info};
    mc_backend_cpu.info(cpu, &info);
    assert_string_equal(info.name, "cpu");
    assert_int_equal(info.threads, 3);
    assert_non_null(strstr(info.description, "3 threads"));
    assert_true(info.memory_bytes > 0);
    mc_backend_cpu.close(cpu);
    mc_backend_cpu.close(NULL);

    assert_int_equal(mc_backend_cpu.open(NULL, "", &cpu), MICA_OK);
    mc_backend_cpu.info(cpu, &info);
    assert_int_equal(info.threads, mc_core_count());
    mc_backend_cpu.close(cpu);
}

static void every_instruction_set_by_name(void **state) {
    (void)state;
    const char *before = getenv("MICA_CPU");
    char *saved = before != NULL ? test_format("%s", before) : NULL;
    for (int i = 0; i < MK_ISA_COUNT; i++) {
        const char *name = mk_isa_name((mk_isa)i);
        assert_int_equal(setenv("MICA_CPU", name, 1), 0);
        void *cpu = NULL;
        mica_status status = mc_backend_cpu.open(NULL, "", &cpu);
        if (!mk_isa_has((mk_isa)i)) {
            assert_int_equal(status, MICA_EDEVICE);
            assert_non_null(strstr(mica_last_error(), name));
            continue;
        }
        assert_int_equal(status, MICA_OK);
        mica_device_info info = {.struct_bytes = sizeof info};
        mc_backend_cpu.info(cpu, &info);
        assert_string_equal(info.architecture, name);
        mc_backend_cpu.close(cpu);
    }
    assert_int_equal(setenv("MICA_CPU", "abacus", 1), 0);
    void *cpu = NULL;
    assert_int_equal(mc_backend_cpu.open(NULL, "", &cpu), MICA_EDEVICE);
    assert_null(cpu);
    assert_non_null(strstr(mica_last_error(), "MICA_CPU is abacus"));
    if (saved != NULL)
        setenv("MICA_CPU", saved, 1);
    else
        unsetenv("MICA_CPU");
    free(saved);
}

/* Each kernel is the one of the instruction set named in `from`. */
static void kernels_and_where_they_are_from(void **state) {
    (void)state;
    for (int i = 0; i < MK_ISA_COUNT; i++) {
        mk_kernels kernels, weaker;
        if (!mk_isa_has((mk_isa)i)) continue;
        mk_kernels_fill(&kernels, (mk_isa)i);
        for (int j = i; j >= 0; j--) {
            const char *name = mk_isa_name((mk_isa)j);
            mk_kernels_fill(&weaker, (mk_isa)j);
#define KERN(kernel, result, args)                    \
    if (strcmp(kernels.from.kernel, name) == 0)       \
        assert_true(kernels.kernel == weaker.kernel); \
    else if (strcmp(weaker.from.kernel, name) == 0)   \
        assert_true(kernels.kernel != weaker.kernel);
#include "cpu/kern/kern_list.h"
#include "cpu/prefetch.h"
#include "cpu/region.h"
        }
    }
}

/* Sets the bytes of `kernels` that differ between `with` and `without` to those of `without`. */
static void take_back(mk_kernels *kernels, const mk_kernels *with, const mk_kernels *without) {
    uint8_t *bytes = (uint8_t *)kernels;
    for (size_t i = 0; i < sizeof *kernels; i++)
        if (((const uint8_t *)with)[i] != ((const uint8_t *)without)[i])
            bytes[i] = ((const uint8_t *)without)[i];
}

#define BELOW(isa, file, better) void mk_##file(mk_kernels *kernels);
#include "cpu/kern/below_list.h"

typedef struct below_row {
    void (*file)(mk_kernels *kernels);
    mk_isa isa, better;
} below_row;

static const below_row belows[] = {
#define BELOW(isa, file, better) {mk_##file, MK_ISA_##isa, MK_ISA_##better},
#include "cpu/kern/below_list.h"
    {0}, /* not empty */
};

/* What a machine with `better` lacks without a file of below_list.h: nothing. */
static void what_better_sets_replace(void **state) {
    (void)state;
    for (const below_row *b = belows; b->file; b++) {
        if (!mk_isa_has(b->better)) continue;
        mk_kernels whole = {0}, kernels = {0};
        for (int i = 0; i <= (int)b->better; i++) {
#define ISA(name)                                                          \
    if (MK_ISA_##name == i && mk_isa_has(MK_ISA_##name)) {                 \
        mk_kernels with = kernels;                                         \
        const mk_kernels without = kernels;                                \
        mk_fill_##name(&whole), mk_fill_##name(&kernels);                  \
        b->file(&with);                                                    \
        if (MK_ISA_##name == b->isa) take_back(&kernels, &with, &without); \
    }
#include "cpu/kern/isa_list.h"
        }
        assert_memory_equal(&kernels, &whole, sizeof whole);
    }
}

static void refuses_bad_options(void **state) {
    (void)state;
    void *cpu = NULL;
    assert_int_equal(mc_backend_cpu.open(&(mica_device_options){.threads = -1}, "", &cpu),
                     MICA_EINVAL);
    assert_null(cpu);
}

static bool open_and_close(void *arg) {
    (void)arg;
    void *cpu = NULL;
    mica_status status = mc_backend_cpu.open(&(mica_device_options){.threads = 2}, "", &cpu);
    if (status == MICA_OK) mc_backend_cpu.close(cpu);
    return status == MICA_OK;
}

static void without_memory(void **state) {
    (void)state;
    assert_true(test_fail_each_allocation(open_and_close, NULL) >= 1);
}

#define MAX 1000

typedef struct tally {
    int64_t n, grain;
    int threads;
    unsigned char seen[MAX]; /* no two tasks write one element: runs do not overlap */
    bool wrong[16];          /* by worker */
} tally;

static void count_range(void *context, int64_t begin, int64_t end, int worker) {
    tally *t = context;
    bool good = begin >= 0 && begin < end && end <= t->n && worker >= 0 && worker < t->threads &&
                (end - begin >= t->grain || end == t->n) && begin % t->grain == 0;
    if (!good) t->wrong[worker & 15] = true;
    for (int64_t i = begin; i < end; i++)
        t->seen[i]++;
}

static void ranges_cover_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        void *cpu = NULL;
        mica_device_options options = {.threads = threads};
        assert_int_equal(mc_backend_cpu.open(&options, "", &cpu), MICA_OK);
        mc_call call = {.state = cpu};
        for (int64_t n = 0; n <= MAX; n = n * 2 + 1) {
            for (int64_t grain = 1; grain <= 300; grain = grain * 3 + 1) {
                tally t = {.n = n, .grain = grain, .threads = threads};
                mc_cpu_for(&call, n, grain, count_range, &t);
                for (int64_t i = 0; i < MAX; i++)
                    assert_int_equal(t.seen[i], i < n ? 1 : 0);
                for (int i = 0; i < 16; i++)
                    assert_false(t.wrong[i]);
            }
        }
        mc_backend_cpu.close(cpu);
    }
}

enum { CALLS = 9 };

/* The weights that are prefetched next: of joint matmuls in one region all; of matmuls whose
 * weights have a batch axis, one. */
static void what_the_next_matmul_reads(void **state) {
    (void)state;
    static const struct {
        mc_op op;
        int joint, ndim; /* of the weights */
    } steps[CALLS] = {
        {MC_OP_LOG, 1, 2},  {MC_OP_QUANTIZED_MATMUL, 2, 2}, {MC_OP_QUANTIZED_MATMUL, 0, 2},
        {MC_OP_SDPA, 1, 2}, {MC_OP_QUANTIZED_MATMUL, 2, 3}, {MC_OP_QUANTIZED_MATMUL, 0, 3},
        {MC_OP_LOG, 1, 2},  {MC_OP_MATMUL, 2, 2},           {MC_OP_MATMUL, 0, 2}};
    static const int wanted[CALLS] = {1, 2, 4, 4, 5, 7, 7, 8, -1}; /* the call found after each */
    static const int counts[CALLS] = {2, 1, 1, 1, 1, 2, 2, 1, 0};
    uint32_t weights[CALLS][6];
    mc_layout layouts[4];
    for (int ndim = 2; ndim <= 3; ndim++)
        assert_int_equal(mc_layout_init(&layouts[ndim], MICA_U32, (const int64_t[]){2, 3, 1}, ndim),
                         MICA_OK);
    mc_operand in[CALLS][3];
    mc_call calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        for (int k = 0; k < 3; k++)
            in[i][k] = (mc_operand){k == 1 ? weights[i] : NULL, &layouts[steps[i].ndim]};
        calls[i] = (mc_call){
            .op = steps[i].op, .joint = steps[i].joint, .n_in = 3, .in = in[i], .left = CALLS - i};
    }
    for (int i = 0; i < CALLS; i++) {
        mc_stretch next[MC_MAX_JOINT];
        assert_int_equal(mc_cpu_next(&calls[i], next), counts[i]);
        for (int k = 0; k < counts[i]; k++) {
            assert_ptr_equal(next[k].begin, weights[wanted[i] + k]);
            assert_int_equal(next[k].bytes, sizeof weights[0]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(every_instruction_set_by_name),
        cmocka_unit_test(kernels_and_where_they_are_from),
        cmocka_unit_test(what_better_sets_replace),
        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(ranges_cover_once),
        cmocka_unit_test(what_the_next_matmul_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

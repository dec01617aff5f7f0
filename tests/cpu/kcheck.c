/* kcheck: checks every kernel of every instruction set that this machine has.
 *
 * Results are compared with sums in f64. The bound is that of any order of n rounded additions, (n
 * + 4) u sum |x_i w_i| with u = 2^-24, plus the rounding that attn_list.h allows for attention. The
 * order itself is checked by bits: rows and columns alone, in blocks, and in the variants that must
 * agree. Operands end (or begin) at a page that may not be read; the bytes between are checked for
 * writes.
 *
 *     kcheck [ISA]           a table of the worst error found, in parts of the bound
 *       --loose              reads behind the end of an operand are not checked
 *       --once               operands only end at such a page, and do not also begin at one
 *     kcheck --bench         GB/s
 *     kcheck --bench-fast    fast matmuls compared with exact ones */
#include "cpu/kcheck.h"

#include <stdio.h>

static const kcheck_family *const families[] = {
    &kcheck_attn,    &kcheck_conv,    &kcheck_dense, &kcheck_quant, &kcheck_int8,
    &kcheck_integer, &kcheck_row_ops, &kcheck_scan,  &kcheck_elem,  &kcheck_fft};

/* Whether the machine has the set and it is asked for. only NULL: all are. */
static bool wanted(int isa, const char *only) {
    if (only != NULL && strcmp(only, mk_isa_name((mk_isa)isa)) != 0) return false;
    return mk_isa_has((mk_isa)isa);
}

/* Reports a set that is asked for and cannot be checked. */
static bool can_check(const char *only) {
    bool known = false;
    for (int isa = 0; isa < MK_ISA_COUNT; isa++) {
        if (wanted(isa, only)) return true;
        known = known || strcmp(only, mk_isa_name((mk_isa)isa)) == 0;
    }
    fprintf(stderr, "kcheck: %s %s\n",
            known ? "this machine cannot run" : "there is no instruction set", only);
    return false;
}

typedef struct places { /* placement of operands */
    placement first;
    bool both; /* AT_START too */
} places;

/* Checks one kernel of every wanted set, a row of the table. Returns the number of failures. */
static int check_kernel(const kcheck_family *family, const kcheck_row *row, const char *only,
                        places where) {
    int failures = 0;
    const char *wrong = NULL;
    mk_kernels before = {0};
    printf("%-14s", row->name);
    for (int isa = 0; isa < MK_ISA_COUNT; isa++) {
        if (!wanted(isa, only)) continue;
        mk_kernels kern;
        mk_kernels_fill(&kern, (mk_isa)isa);
        if (family->same && family->same(&kern, &before)) {
            printf(" %20s", "the same");
            continue;
        }
        before = kern;
        check c = {.kern = &kern, .where = where.first};
        row->run(&c);
        c.where = AT_START;
        if (where.both) row->run(&c);
        printf(" %10.3f %9d", c.worst, c.cases);
        if (c.failures > 0) wrong = c.what;
        failures += c.failures;
    }
    printf("%s%s\n", wrong ? "   FAILED: " : "", wrong ? wrong : "");
    return failures;
}

static int check_all(const char *only, places where) {
    int failures = 0;
    if (!can_check(only)) return EXIT_FAILURE;
    printf("%-14s", "kernel");
    for (int isa = 0; isa < MK_ISA_COUNT; isa++)
        if (wanted(isa, only)) printf(" %20s", mk_isa_name((mk_isa)isa));
    printf("   (error / bound, cases)\n");
    for (int i = 0; i < COUNT(families); i++)
        for (int j = 0; j < families[i]->n; j++)
            failures += check_kernel(families[i], &families[i]->rows[j], only, where);
    printf("%s\n", failures == 0 ? "all well" : "FAILED");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const char *only = NULL;
    places where = {AT_END, true};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) return kbench();
        if (strcmp(argv[i], "--bench-fast") == 0) return kbench_int8();
        if (strcmp(argv[i], "--loose") == 0)
            where = (places){LOOSE, false};
        else if (strcmp(argv[i], "--once") == 0)
            where.both = false;
        else
            only = argv[i];
    }
    return check_all(only, where);
}

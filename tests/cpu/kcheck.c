/* kcheck: every kernel of every instruction set that this machine has.
 *
 * Results are compared with sums in f64; the bound is the one that holds for any order of n rounded
 * additions, (n + 4) u sum |x_i w_i| with u = 2^-24, and what attn_list.h lets attention round
 * beside. The order itself is checked by bits: rows and columns alone, in blocks, and by the
 * different ways that must agree. Operands end (or begin) at a page that may not be read; what lies
 * between is checked for writes.
 *
 *     kcheck [ISA]           a table of the worst error found, in parts of the bound
 *       --loose              what is read behind the end of an operand is not checked
 *       --once               operands end at such a page, and need not begin at one, too
 *     kcheck --bench         GB/s
 *     kcheck --bench-fast    fast products against exact ones */
#include "cpu/kcheck.h"

#include <stdio.h>

static const kcheck_family *const families[] = {&kcheck_attn, &kcheck_dense, &kcheck_quant,
                                                &kcheck_int8, &kcheck_row_ops};

/* Does the machine have it, and is it asked for? NULL asks for all. */
static bool wanted(int isa, const char *only) {
    if (only != NULL && strcmp(only, mk_isa_name((mk_isa)isa)) != 0) return false;
    return mk_isa_has((mk_isa)isa);
}

/* Said where the one that is asked for cannot be checked. */
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

typedef struct places { /* of operands */
    placement first;
    bool both; /* and then AT_START */
} places;

/* A row of the table: the kernel of every set that is wanted. Returns the failures. */
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

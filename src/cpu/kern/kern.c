#include "cpu/kern/kern.h"

#include <stddef.h>

typedef struct isa_row {
    const char *name;
    bool (*has)(void);
    void (*fill)(mk_kernels *kernels);
} isa_row;

static const isa_row isas[MK_ISA_COUNT] = {
#define ISA(name) {#name, mk_has_##name, mk_fill_##name},
#include "cpu/kern/isa_list.h"
};

const char *mk_isa_name(mk_isa isa) {
    return isas[isa].name;
}

bool mk_isa_has(mk_isa isa) {
    return isas[isa].has();
}

mk_isa mk_isa_best(void) {
    int best = MK_ISA_COUNT - 1;
    while (!isas[best].has())
        best--; /* every machine has ref */
    return (mk_isa)best;
}

/* Sets an instruction set's kernels, and notes its name for those that changed. */
static void overlay(mk_kernels *kernels, const isa_row *isa) {
    const mk_kernels before = *kernels;
    isa->fill(kernels);
#define KERN(kernel, result, args) \
    if (kernels->kernel != before.kernel) kernels->from.kernel = isa->name;
#include "cpu/kern/kern_list.h"
}

void mk_kernels_fill(mk_kernels *kernels, mk_isa isa) {
    *kernels = (mk_kernels){.isa = isa};
    for (int i = 0; i <= (int)isa; i++) /* the machine may lack a weaker set */
        if (isas[i].has()) overlay(kernels, &isas[i]);
}

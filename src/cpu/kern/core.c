#include "cpu/kern/ahead.h"
#include "cpu/kern/has_arm.h"

#include <stddef.h>

_Atomic int64_t mk_core_ahead;

typedef struct core_row {
    const char *name;
    unsigned implementer, part;
    int latency, bandwidth;
} core_row;

static const core_row cores[] = {
#define CORE(name, implementer, part, latency, bandwidth) \
    {#name, implementer, part, latency, bandwidth},
#include "cpu/kern/core_list.h"
};

/* Nanoseconds times GB/s are bytes. */
static int64_t ahead_of(const core_row *core) {
    return (core->latency * core->bandwidth + 1023) / 1024 * 1024;
}

mk_core mk_core_of(uint64_t midr) {
    unsigned implementer = (unsigned)(midr >> 24 & 0xff), part = (unsigned)(midr >> 4 & 0xfff);
    size_t i = 0, last = sizeof cores / sizeof *cores - 1;
    while (i < last &&
           (cores[i].implementer != implementer || (cores[i].part != 0 && cores[i].part != part)))
        i++;
    return (mk_core){cores[i].name, ahead_of(&cores[i])};
}

mk_core mk_core_find(void) {
    mk_core core = mk_core_of(mk_arm_midr());
    atomic_store_explicit(&mk_core_ahead, core.ahead, memory_order_relaxed);
    return core;
}

/* How far ahead of what they read kernels prefetch weights.
 *
 * Each kernel has a distance of its own, which was measured on x86. For ARM it is derived, for each
 * core, from what is published about it (core_list.h). mk_ahead_set replaces them, so that others
 * can be tried (MICA_AHEAD, mica bench --prefetch-distance). A distance changes no result.
 *
 * One kernel keeps its own, which is part of its instructions: that of one row by AVX-512 VNNI in
 * the order of memory (int8_avx512vnni_in_order_tmpl.h) was 3 % slower with it in a register. */
#ifndef CPU_KERN_AHEAD_H
#define CPU_KERN_AHEAD_H

#include <stdatomic.h>
#include <stdint.h>

#define MK_AHEAD_MIN 64
#define MK_AHEAD_MAX (1 << 20)

extern _Atomic int64_t mk_ahead_chosen; /* bytes; 0: none was set */

/* The distance of a kernel whose own is `own` bytes. */
static inline int64_t mk_ahead(int64_t own) {
    int64_t chosen = atomic_load_explicit(&mk_ahead_chosen, memory_order_relaxed);
    return chosen > 0 ? chosen : own;
}

/* Sets the distance of all kernels, MK_AHEAD_MIN .. MK_AHEAD_MAX bytes; 0: each has its own. For
 * the whole process. */
static inline void mk_ahead_set(int64_t bytes) {
    atomic_store_explicit(&mk_ahead_chosen, bytes, memory_order_relaxed);
}

#if defined(__aarch64__)
/* What a row of core_list.h says of the core that has this MIDR; if there is none, of "other". */
typedef struct mk_core {
    const char *name;
    int64_t ahead; /* bytes */
} mk_core;
mk_core mk_core_of(uint64_t midr);

extern _Atomic int64_t mk_core_ahead; /* of this machine's core, once mk_core_find has run */
/* Finds this machine's core. */
mk_core mk_core_find(void);
#endif

#endif

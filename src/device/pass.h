/* Passes: what is done to a graph between its recording and its run. None changes bits; each can be
 * switched off by its name. */
#ifndef DEVICE_PASS_H
#define DEVICE_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mc_pass {
#define PASS(ENUM, name, what) MC_PASS_##ENUM,
#include "device/pass_list.h"
    MC_PASS_COUNT
} mc_pass;

/* In debug builds the verifier follows each pass. */
#ifdef NDEBUG
#define MC_VERIFY_PASSES false
#else
#define MC_VERIFY_PASSES true
#endif

/* Those that change graphs. */
#define MC_GRAPH_PASSES \
    (UINT32_C(1) << MC_PASS_FOLD | UINT32_C(1) << MC_PASS_COMMON | UINT32_C(1) << MC_PASS_DEAD)

const char *mc_pass_name(mc_pass pass);

/* Whether a set, a bit a pass, has the pass. */
static inline bool mc_pass_is_off(uint32_t off, mc_pass pass) {
    return (off >> pass & 1) != 0;
}

/* The set of the passes of a list of names, "fold,regions"; "all" is every one. NULL and "": none.
 * errors  MICA_EINVAL no pass has such a name: "<what>: ..." */
mica_status mc_passes_parse(const char *what, const char *names, uint32_t *off);

#endif

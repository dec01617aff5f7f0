/* The witness: a device for tests that shares nothing with the host, to show that nothing above
 * mc_backend takes a device for the CPU.
 *
 *  - The host cannot read its memory: an address is a displaced pointer, which faults where it is
 *    read, and names a block whose bytes come and go by copies alone.
 *  - A launch returns before its graph is computed: by a thread of the device's own, every eighth
 *    and those before it that are left, or, as late as may be, by whoever waits for it or copies.
 *  - It has a handful of ops; others decompose, or fall back to the CPU with copies around them. As
 *    "witness:fused" it has kernels for the fused ops of decoders, too: for tests of thousands of
 *    passes, which would otherwise take minutes.
 *  - It can be told to fail.
 *
 * It computes with a cpu device of its own.
 *
 * "witness:steps" is another one, by the lower layer (exec/steps/step.h): its kernels note calls,
 * which are computed when somebody waits or copies. Addresses are displaced and can be added to. It
 * has all of the cpu's kernels.
 *
 * "witness:unified" is the same, but its memory is the host's: addresses are pointers, and it reads
 * memory of the host where it lies, as late as it computes. */
#ifndef SUPPORT_WITNESS_H
#define SUPPORT_WITNESS_H

#include "device/backend.h"

#include <pthread.h>

extern const mc_backend witness_backend, witness_steps_backend, witness_unified_backend;

/* What it tells of itself; nothing keeps to the first two. */
enum {
    WITNESS_MAX_ARRAY = 1 << 29,
    WITNESS_WORKING_SET = 1 << 30,
    WITNESS_STAGING = 1 << 14, /* of a copy from or to the host */
    WITNESS_CACHE = 1 << 22    /* of freed memory */
};

typedef enum witness_call {
    WITNESS_ALLOC, /* of memory, that of uploaded files too */
    WITNESS_COPY,
    WITNESS_LAUNCH, /* what it computes: launch succeeds, wait fails */
    WITNESS_CALLS
} witness_call;

/* The first member of a witness's state. witness_fails counts a call; true: it is to fail. */
typedef struct witness_failures {
    pthread_mutex_t lock;
    uint64_t counts[WITNESS_CALLS], fail_at[WITNESS_CALLS];
    uint64_t lose_at; /* a launch; from it on all fails */
} witness_failures;

void witness_failures_init(witness_failures *f);
void witness_failures_deinit(witness_failures *f);
bool witness_fails(void *state, witness_call call);

/* Lets the n-th of such calls from now on fail, and none before or after it; 0: none. */
void witness_fail(mica_device *device, witness_call call, uint64_t n);

/* From the n-th launch from now on every call of every kind fails: the device is lost. */
void witness_lose(mica_device *device, uint64_t n);
bool witness_is_lost(mica_device *device);

/* Whether the call that was to fail has come. */
bool witness_has_failed(mica_device *device, witness_call call);

/* How many of such calls there were. */
uint64_t witness_count(mica_device *device, witness_call call);

#endif

/* An op of the application, for the targets that load graphs: "fuzz.first", its first operand. */
#ifndef FUZZ_CUSTOM_OP_H
#define FUZZ_CUSTOM_OP_H

#include <mica/custom.h>

#include <stdlib.h>
#include <string.h>

static inline mica_status fuzz_infer_first(void *user, const int64_t *numbers, int n_numbers,
                                           const mica_shape *in, int n_in, mica_shape *out) {
    (void)user;
    for (int i = 0; i < n_numbers; i++)
        if (numbers[i] < 0) return MICA_EINVAL;
    if (n_in == 0) return MICA_EINVAL;
    *out = in[0];
    return MICA_OK;
}

static inline mica_status fuzz_run_first(void *user, const int64_t *numbers, int n_numbers,
                                         const mica_shape *in, const void *const *data, int n_in,
                                         const mica_shape *out, void *result) {
    (void)user, (void)numbers, (void)n_numbers;
    size_t bytes = mica_dtype_bytes(out->dtype);
    if (n_in == 0 || in[0].ndim != out->ndim || in[0].dtype != out->dtype) abort();
    for (int i = 0; i < out->ndim; i++) {
        if (in[0].shape[i] != out->shape[i]) abort();
        bytes *= (size_t)out->shape[i];
    }
    if (bytes > 0) memcpy(result, data[0], bytes);
    return MICA_OK;
}

static inline mica_status fuzz_register_op(void) {
    const mica_custom_op op = {.struct_bytes = sizeof op,
                               .name = "fuzz.first",
                               .infer = fuzz_infer_first,
                               .run = fuzz_run_first};
    return mica_custom_register(&op);
}

#endif

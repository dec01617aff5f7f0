/* Element by element, one op or several; and ranges of numbers. */
#include "cuda/kern/element.cuh"

KERNEL(mc_elements, mc_cuda_elements) {
    FOR_ELEMENTS(i, a.size) {
        float last = 0;
        run_element(a, i, &last);
    }
}

/* A thread takes an element through all ops. */
KERNEL_OF(mc_region, mc_cuda_region, 256) {
    __shared__ mc_cuda_region r;
    take_args(r, a, offsetof(mc_cuda_region, ops) + a.n * sizeof(mc_cuda_elements));
    FOR_ELEMENTS(i, r.size) {
        float last = 0;
        for (int k = 0; k < r.n; k++)
            run_element(r.ops[k], i, &last);
    }
}

KERNEL(mc_range, mc_cuda_range) {
    FOR_ELEMENTS(i, a.size) {
        double v = a.start + (double)i * a.step;
        if (is_float(a.out.dtype))
            store_f32(a.out.dtype, a.out.data, i, (float)v);
        else
            store_i64(a.out.dtype, a.out.data, i,
                      v >= 9223372036854775808.0    ? INT64_MAX
                      : v <= -9223372036854775808.0 ? INT64_MIN
                                                    : (i64)v);
    }
}

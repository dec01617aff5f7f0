/* Data moved unchanged: copies of views, rows by index, new keys and values. */
#include "cuda/kern/row.cuh"

KERNEL(mc_copy, mc_cuda_copy) {
    i64 first;
    if (!find_start(a, &first)) return;
    FOR_ELEMENTS(i, a.size) copy_element(a, first, i);
}

KERNEL(mc_take, mc_cuda_take) {
    FOR_ELEMENTS(i, a.size) {
        i64 inner = i % a.inner, j = i / a.inner % a.n, outer = i / a.inner / a.n;
        i64 from = resolve(a.index, place(j, a.index_ndim, a.index_shape, a.index.strides),
                           a.length, a.op, a.axis, a.fault);
        if (from < 0) return;
        from = from * a.stride + place(outer, a.outer_ndim, a.outer_shape, a.outer_strides) +
               place(inner, a.inner_ndim, a.inner_shape, a.inner_strides);
        copy_item(a.item, a.out.data, i, data_of(a.x), from);
    }
}

KERNEL(mc_numbers, mc_cuda_numbers) {
    if (threadIdx.x < a.n) a.to[threadIdx.x] = a.numbers[threadIdx.x];
}

KERNEL(mc_kv_write, mc_cuda_kv_write) {
    FOR_ELEMENTS(i, a.size) write_kv(a, i);
}

/* What is between the matrices of a gated MLP: little code, which is there sooner than the switch
 * over all ops of elements.cu; the same bits. */
#include "cuda/kern/element.cuh"

KERNEL(mc_gated, mc_cuda_gated) {
    FOR_ELEMENTS(i, a.size) {
        float x = a.x[i], y = a.y[i];
        float gate =
            a.is_gelu ? of_floats(ELEMENT_GELU_APPROX, x, 0.0f) : of_floats(ELEMENT_SILU, x, 0.0f);
        a.gate[i] = gate;
        a.out[i] = gate * y;
    }
}

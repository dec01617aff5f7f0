/* The matmuls for each type of w. Included once by each instruction set, behind its nt_any and
 * nn_any, which take the type. */
#define OF_TYPE(name, any, number, type)                                                \
    static void name(int64_t m, int64_t n, int64_t k, const float *x, int64_t x_stride, \
                     const number *w, int64_t w_stride, float *y, int64_t y_stride) {   \
        any(type, m, n, k, x, x_stride, w, w_stride, y, y_stride);                      \
    }
OF_TYPE(matmul_nt, nt_any, float, MK_F32)
OF_TYPE(matmul_nt_f16, nt_any, uint16_t, MK_F16)
OF_TYPE(matmul_nt_bf16, nt_any, uint16_t, MK_BF16)
OF_TYPE(matmul_nn, nn_any, float, MK_F32)
OF_TYPE(matmul_nn_f16, nn_any, uint16_t, MK_F16)
OF_TYPE(matmul_nn_bf16, nn_any, uint16_t, MK_BF16)
#undef OF_TYPE

static void set_matmuls(mk_kernels *kernels) {
    kernels->matmul_nt = matmul_nt;
    kernels->matmul_nt_f16 = matmul_nt_f16;
    kernels->matmul_nt_bf16 = matmul_nt_bf16;
    kernels->matmul_nn = matmul_nn;
    kernels->matmul_nn_f16 = matmul_nn_f16;
    kernels->matmul_nn_bf16 = matmul_nn_bf16;
}

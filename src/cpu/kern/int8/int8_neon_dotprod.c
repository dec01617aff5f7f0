/* NEON with dot products of signed bytes. */
#include "cpu/kern/int8/int8_neon_codes.h"

#define CODES_SIGNED 1
#define dot_codes(sum, w, x) vdotq_s32(sum, vreinterpretq_s8_u8(w), x)
#define dot_lane(sum, w, x, lane) vdotq_laneq_s32(sum, vreinterpretq_s8_u8(w), x, lane)

#include "cpu/kern/int8/int8_neon_rows.h"

#include "cpu/kern/int8/int8_neon_tiles.h"

void mk_int8_neon_dotprod(mk_kernels *kernels) {
    kernels->int8_matvec = matvec;
    kernels->int8_matmul = matmul;
}

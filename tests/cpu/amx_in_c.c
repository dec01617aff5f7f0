/* Whether there is the instruction set `amx` as amx_in_c.h has it: where there is what it builds
 * upon. */
#include "cpu/kern/kern.h"

bool mk_has_amx(void) {
    return mk_has_avx512bf16();
}

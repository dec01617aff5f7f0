/* Whether amx_in_c.h can stand in for the instruction set `amx`: if the machine has the sets it
 * builds upon. */
#include "cpu/kern/kern.h"

bool mk_has_amx(void) {
    return mk_has_avx512bf16();
}

/* Loops over rows; products are AVX2's. */
#define FILL mk_integer_avx512
#include "cpu/kern/integer/integer_tmpl.h"

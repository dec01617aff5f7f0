#define FILL mk_row_avx512
#include "cpu/kern/row/row_tmpl.h"

#define FILL mk_row_avx2
#include "cpu/kern/row/row_tmpl.h"

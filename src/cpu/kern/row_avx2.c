#define FILL mk_row_avx2
#include "cpu/kern/row_text.h"

#define FILL mk_elem_avx512
#define BYTES 64
#include "cpu/kern/elem/elem_tmpl.h"

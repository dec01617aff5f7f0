#define FILL mk_elem_avx2
#define BYTES 32
#include "cpu/kern/elem/elem_tmpl.h"

#define FILL mk_elem_ref
#define BYTES 16
#include "cpu/kern/elem/elem_tmpl.h"

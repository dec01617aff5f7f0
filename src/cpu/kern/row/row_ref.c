#define FILL mk_row_ref
#include "cpu/kern/row/row_tmpl.h"

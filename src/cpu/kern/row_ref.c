#define FILL mk_row_ref
#include "cpu/kern/row_text.h"

#define FILL mk_scan_avx512
#include "cpu/kern/scan/scan_tmpl.h"

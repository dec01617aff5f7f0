#define FILL mk_scan_avx2
#include "cpu/kern/scan/scan_tmpl.h"

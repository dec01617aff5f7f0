#define FILL mk_scan_avx512
#define BYTES 64
#include "cpu/kern/scan/scan_tmpl.h"

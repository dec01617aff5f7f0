#define FILL mk_scan_avx2
#define BYTES 32
#include "cpu/kern/scan/scan_tmpl.h"

#define FILL mk_scan_ref
#define BYTES 16
#include "cpu/kern/scan/scan_tmpl.h"

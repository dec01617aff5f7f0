#define FILL mk_scan_ref
#include "cpu/kern/scan/scan_tmpl.h"

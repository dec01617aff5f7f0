/* What the system says of x86 tiles: has_amx.linux.c, has_amx.darwin.c. */
#ifndef CPU_KERN_HAS_AMX_H
#define CPU_KERN_HAS_AMX_H

#include <stdbool.h>

/* Asks leave for this process, its threads and those to come; true where it has it. */
bool mk_amx_allowed(void);

#endif

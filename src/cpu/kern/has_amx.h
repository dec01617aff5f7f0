/* The system's support of AMX tiles: has_amx.linux.c, has_amx.darwin.c,
 * has_amx.windows.c. */
#ifndef CPU_KERN_HAS_AMX_H
#define CPU_KERN_HAS_AMX_H

#include <stdbool.h>

/* Requests permission to use tiles, for all threads of this process. Returns whether it was
 * granted. */
bool mk_amx_allowed(void);

#endif

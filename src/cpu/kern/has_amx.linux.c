#define _DEFAULT_SOURCE /* syscall */

#include "cpu/kern/has_amx.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Since 5.16, Linux allocates the 8 KiB of tiles only on request
 * (Documentation/arch/x86/xstate). */
bool mk_amx_allowed(void) {
    const long ask = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, ask, tile_data) == 0;
}

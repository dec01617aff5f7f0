#include "cpu/kern/has_amx.h"

#include <stdint.h>

#include <windows.h>

/* Windows 11 allocates tiles when they are first used, for programs that ask for nothing. Older
 * ones do not set the bits of XCR0, which were looked at. */
bool mk_amx_allowed(void) {
    const DWORD64 tile_data = UINT64_C(1) << 18;
    return (GetEnabledXStateFeatures() & tile_data) != 0;
}

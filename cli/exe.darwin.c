#include "exe.h"

#include <limits.h>
#include <mach-o/dyld.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool cli_exe_path(char *out, size_t out_bytes) {
    char raw[PATH_MAX], real[PATH_MAX];
    uint32_t raw_bytes = sizeof raw;
    if (_NSGetExecutablePath(raw, &raw_bytes) != 0 || !realpath(raw, real) ||
        strlen(real) >= out_bytes)
        return false;
    strcpy(out, real);
    return true;
}

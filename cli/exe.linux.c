#define _POSIX_C_SOURCE 200809L
#include "exe.h"

#include <unistd.h>

bool cli_exe_path(char *out, size_t out_bytes) {
    ssize_t n = readlink("/proc/self/exe", out, out_bytes);
    if (n <= 0 || (size_t)n >= out_bytes) return false;
    out[n] = '\0';
    return true;
}

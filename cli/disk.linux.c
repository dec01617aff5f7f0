#include "disk.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t cli_disk_read_bytes(void) {
    char line[128];
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "read_bytes: %" SCNu64, &bytes) == 1) break;
    if (file) fclose(file);
    return bytes;
}

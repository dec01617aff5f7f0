#include "disk.h"

#include <libproc.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t cli_disk_read_bytes(void) {
    struct rusage_info_v2 usage;
    if (proc_pid_rusage(getpid(), RUSAGE_INFO_V2, (rusage_info_t *)&usage) != 0) return 0;
    return usage.ri_diskio_bytesread;
}

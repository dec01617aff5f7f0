/* What this program has read from disks. */
#ifndef CLI_DISK_H
#define CLI_DISK_H

#include <stdint.h>

/** Bytes that were read from disks for this program, pages of mapped files among them; 0 where the
 *  system does not tell. */
uint64_t cli_disk_read_bytes(void);

#endif

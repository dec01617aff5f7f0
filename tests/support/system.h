/* What systems that mica runs on have and others lack, for the parts of tests that need it. */
#ifndef SUPPORT_SYSTEM_H
#define SUPPORT_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

/* Rights of files as POSIX counts them. */
bool test_has_modes(void);

/* Sockets that are files. */
bool test_has_socket_files(void);

/* Whether the name of a file that is open goes when the file is removed, not when it is closed. */
bool test_frees_names(void);

/* Takes away a file that may be open or mapped. Where the system refuses that, the file gets a name
 * elsewhere, and goes when the program ends; test_temp_dir_remove does the same. */
void test_remove_file(const char *path);

/* Limits the descriptors of this process, and 0 lifts that again; false: the system does not. */
bool test_limit_files(uint64_t count);

#endif

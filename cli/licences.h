/* The licences of mica, of the page that it serves, and of libraries that are linked statically
 * (MICA_LICENCES), as a text that the build makes of the files. */
#ifndef CLI_LICENCES_H
#define CLI_LICENCES_H

#include <stddef.h>

extern const unsigned char cli_licences[];
extern const size_t cli_licences_bytes;

#endif

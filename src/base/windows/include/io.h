/* Windows: see windows/posix.h. The C library's functions of these names have other types: they are
 * declared by names that nobody calls. */
#ifndef POSIX_IO_H
#define POSIX_IO_H

#define chmod mc_c_chmod
#define mkdir mc_c_mkdir
#define umask mc_c_umask
#define open mc_c_open
#define close mc_c_close
#define read mc_c_read
#define write mc_c_write
#define lseek mc_c_lseek
#define access mc_c_access
#define tell mc_c_tell
#define unlink mc_c_unlink
#define isatty mc_c_isatty
#pragma GCC system_header /* include_next */
#include_next <io.h>
#undef chmod
#undef mkdir
#undef umask
#undef open
#undef close
#undef read
#undef write
#undef lseek
#undef access
#undef tell
#undef unlink
#undef isatty

#endif

/* Windows: see windows/posix.h. */
#ifndef POSIX_WINSOCK2_H
#define POSIX_WINSOCK2_H

#pragma GCC system_header /* include_next */
#define gethostname mc_c_gethostname
#include_next <winsock2.h>
#undef gethostname

#endif

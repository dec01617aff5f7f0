/* Windows: see sys/socket.h. */
#ifndef POSIX_SYS_UN_H
#define POSIX_SYS_UN_H

#include <sys/socket.h>

struct sockaddr_un { /* as Windows 10 has it from 1803 on */
    ADDRESS_FAMILY sun_family;
    char sun_path[108];
};

#endif

/* Windows: see sys/socket.h. */
#include <sys/socket.h>

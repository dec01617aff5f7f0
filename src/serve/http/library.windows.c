/* Linked, as no system has it. */
#include "serve/http/library.h"

#include <sys/socket.h>

static enum MHD_Result add_connection(struct MHD_Daemon *daemon, MHD_socket fd,
                                      const struct sockaddr *address, socklen_t bytes) {
    return MHD_add_connection(daemon, fd & ~(MHD_socket)MC_SOCKET, address, bytes);
}
#define MHD_add_connection add_connection

mc_mhd_library mc_mhd = {
#define SYMBOL(name) .name = MHD_##name,
#include "serve/http/symbol_list.h"
};

mica_status mc_mhd_load(void) {
    return MICA_OK;
}

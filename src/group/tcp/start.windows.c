/* Ranks do not start over TCP on Windows. */
#include "group/tcp/tcp.h"

bool mc_tcp_told(int *rank, int *size) {
    (void)rank, (void)size;
    return false;
}

void mc_tcp_set_limit(uint64_t until_us) {
    (void)until_us;
}

const mc_mpi_shim mc_tcp_shim = {.version = MC_MPI_SHIM_VERSION, .library = "TCP"};

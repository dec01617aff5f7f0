/* A rank over TCP that has ended: nothing of it is waited for, and it is named where another ends
 * after it. Started by tcp.py, as three ranks; with an argument as two, with all of a group. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <mica/mica.h>

#include "base/system.h"
#include "group/tcp/tcp.h"

enum { LARGE = 1 << 20, START_US = 60000000, ASKED = 1, NEVER, GO };

static char data[LARGE];

/* What receiving comes to; 0: nothing yet. */
static int receive(void *comm, int from, int tag, bool waits) {
    void *request;
    int done = 0, code = mc_tcp_shim.recv(comm, data, sizeof data, from, tag, &request);
    do
        if (!code) code = mc_tcp_shim.test(&request, &done);
    while (waits && !code && !done);
    return code;
}

/* Each call after it has ended says which rank that was. */
static int open_group(void) {
    mica_group *group;
    int named = 0;
    if (mica_group_open(NULL, &group) != MICA_OK) return 1;
    if (mica_group_rank(group) == 1) _exit(0);
    for (int i = 0; i < 3; i++) {
        bool told = mica_group_agree(group, "a text", "the same") == MICA_EDEVICE;
        printf("%s\n", mica_last_error());
        named += told && strstr(mica_last_error(), "rank 1 (process ");
    }
    mica_group_close(&group);
    return named == 3 ? 0 : 1;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return open_group();
    void *comm, *request;
    int rank, size;
    mc_tcp_set_limit(mc_now_us() + START_US);
    if (mc_tcp_shim.init(&comm, &rank, &size) != 0) return 1;
    if (rank == 1) { /* it asks whether it may send, and goes */
        (void)mc_tcp_shim.send(comm, data, sizeof data, 0, ASKED, &request);
        _exit(0);
    }
    int gone = receive(comm, 1, NEVER, true), asked = receive(comm, 1, ASKED, false);
    if (rank == 2) return receive(comm, 0, GO, true); /* it ends when rank 0 has noticed */
    (void)mc_tcp_shim.send(comm, data, sizeof data, 2, GO, &request);
    int next = receive(comm, 2, NEVER, true);
    printf("%d %d %d\n", gone, asked, next);
    return gone == MC_TCP_GONE + 1 && asked == gone && next == gone ? 0 : 1;
}

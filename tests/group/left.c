/* A rank over TCP that has ended: nothing of it is waited for, and it is named where another ends
 * after it. Started by tcp.py, as three ranks; as two with an argument: "group", with all of a
 * group; "last", whose last words are heard. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mica/mica.h>

#include "base/system.h"
#include "group/tcp/tcp.h"

enum { LARGE = 1 << 20, START_US = 60000000, FILES = 256, ASKED = 1, NEVER, GO };

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

/* The connection to the only other rank. */
static int connection(void) {
    struct sockaddr_storage there;
    socklen_t bytes = sizeof there;
    int fd = 3;
    while (fd < FILES && getpeername(fd, (struct sockaddr *)&there, &bytes) != 0)
        fd++;
    return fd;
}

/* What a rank has said before its connection was reset is heard, also by one that finds first that
 * it can send nothing there. */
static int hear_last(void *comm, int rank) {
    const char said[] = "the reason";
    char heard[sizeof said] = "";
    void *request;
    int fd = connection(), done = 0;
    if (rank == 1) {
        const struct linger none = {1, 0};
        (void)mc_tcp_shim.send(comm, said, sizeof said, 0, ASKED, &request);
        _exit(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    }
    struct pollfd reset = {.fd = fd};
    if (poll(&reset, 1, START_US / 1000) != 1) return 1;
    (void)mc_tcp_shim.send(comm, data, 1, 1, GO, &request);
    int code = mc_tcp_shim.recv(comm, heard, sizeof heard, 1, ASKED, &request);
    while (!code && !done)
        code = mc_tcp_shim.test(&request, &done);
    int gone = receive(comm, 1, NEVER, true);
    printf("%d %s %d\n", code, heard, gone);
    return code == 0 && strcmp(heard, said) == 0 && gone == MC_TCP_GONE + 1 ? 0 : 1;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "group") == 0) return open_group();
    void *comm, *request;
    int rank, size;
    mc_tcp_set_limit(mc_now_us() + START_US);
    if (mc_tcp_shim.init(&comm, &rank, &size) != 0) return 1;
    if (strcmp(what, "last") == 0) return hear_last(comm, rank);
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

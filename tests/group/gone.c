/* A rank that goes: rank 1 stands still, or is killed, while the others wait for it: in a sum, to
 * open a group, or to start MPI. Started by mpirun, with what becomes of it as argument: stop,
 * kill, open, start. */
#define _XOPEN_SOURCE 700
#include <mica/mica.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 15 }; /* more than a busy machine keeps a process waiting */

static const mica_group_options options = {.patience_s = PATIENCE_S};

static mica_status sum(mica_group *group) {
    mica_device *device;
    mica_scope *s;
    if (mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) != MICA_OK ||
        mica_scope_open(device, &s) != MICA_OK)
        return MICA_ENOMEM;
    mica_status status = mica_eval(s, mica_all_reduce(s, group, mica_f32(s, 1), NULL));
    mica_scope_close(&s);
    mica_device_close(&device);
    return status;
}

static int fail(mica_group *group) {
    fprintf(stderr, "%s\n", mica_last_error());
    mica_group_abort(group, 1); /* the others may wait for this one */
    return 1;
}

int main(int argc, char **argv) {
    mica_group *group, *second = NULL;
    const char *how = argc > 1 ? argv[1] : "";
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"); /* before MPI says it */
    if (strcmp(how, "start") == 0 && rank && strcmp(rank, "1") == 0) kill(getpid(), SIGSTOP);
    if (mica_group_open(&options, &group) != MICA_OK) return fail(NULL);
    if (sum(group) != MICA_OK) return fail(group);
    if (mica_group_rank(group) == 1) kill(getpid(), strcmp(how, "kill") == 0 ? SIGKILL : SIGSTOP);
    mica_status status = strcmp(how, "open") == 0 ? mica_group_open(&options, &second) : sum(group);
    bool told = status == MICA_EDEVICE && strstr(mica_last_error(), "rank 1 (process ") &&
                strstr(mica_last_error(), "no sign of life");
    bool again = sum(group) == MICA_EDEVICE; /* nothing waits any more */
    printf("%s\n", told && again ? "rank 1 was told to be gone" : mica_last_error());
    fflush(stdout);
    sleep(1); /* the others tell it, too */
    mica_group_abort(group, 3);
    mica_group_close(&group);
    return 1;
}

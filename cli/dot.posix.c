#define _POSIX_C_SOURCE 200809L
#include "dot.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int start(const char *kind, FILE *from, FILE *picture, pid_t *child) {
    char *args[] = {(char *)"dot", (char *)kind, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) return ENOMEM;
    int error = posix_spawn_file_actions_adddup2(&actions, fileno(from), STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, fileno(picture), STDOUT_FILENO);
    if (error == 0) error = posix_spawnp(child, "dot", &actions, NULL, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int cli_dot_run(const char *kind, FILE *from, FILE *picture, bool *drawn) {
    pid_t child;
    int state = 0, error = start(kind, from, picture, &child);
    *drawn = error == 0 && waitpid(child, &state, 0) == child && state == 0;
    return error;
}

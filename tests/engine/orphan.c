#define _DEFAULT_SOURCE
#include "engine/orphan.h"

#include "support/support.h"

#include "engine/mlx_lm_child.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Begins an answer; returns the child's id, 0 after an error. */
static int64_t begin(const char *model) {
    mc_mlx_lm_settings settings;
    mc_mlx_lm *child;
    mc_mlx_lm_answer *answer;
    mc_json_doc *reply;
    mica_token token;
    mica_finish finish = MICA_FINISH_NONE;
    mc_buffer load = {0}, ask = {0};
    bool begun =
        mc_buffer_printf(&load, "{\"cmd\": \"load\", \"path\": \"%s\"", model) &&
        mc_buffer_add_text(&ask, "{\"cmd\": \"generate\", \"prompt\": [3], \"stop_ids\": []") &&
        mc_mlx_lm_settle(NULL, &settings) == MICA_OK &&
        mc_mlx_lm_open(&settings, &load, NULL, &child, &reply) == MICA_OK &&
        mc_mlx_lm_ask(child, &ask, 1, &(mica_generate_options){.max_tokens = 0}, &answer) ==
            MICA_OK &&
        mc_mlx_lm_next(answer, &token, &finish) == MICA_OK;
    return begun ? mc_mlx_lm_process_id(child) : 0;
}

char *orphan_make(const char *model) {
    char *dir = test_temp_dir();
    int pipe_fds[2];
    int64_t pid = 0;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        setenv("TMPDIR", dir, 1);
        pid = begin(model);
        if (write(pipe_fds[1], &pid, sizeof pid) != sizeof pid) _exit(1);
        raise(SIGKILL);
    }
    close(pipe_fds[1]);
    assert_int_equal(read(pipe_fds[0], &pid, sizeof pid), sizeof pid);
    close(pipe_fds[0]);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_true(pid > 0);
    while (test_process_lives(pid)) /* for as long as a busy machine takes */
        (void)poll(NULL, 0, 1);
    return dir;
}

#define _POSIX_C_SOURCE 200809L
#include "ranks.h"

#include "cli.h"
#include "report.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static mica_group *group;

/* Ranks other than 0 print no results. */
static void silence(void) {
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) dup2(null, STDOUT_FILENO);
    if (null > STDERR_FILENO) close(null);
    cli_report_set_rank(mica_group_rank(group));
}

int cli_ranks_begin(const char *word, cli_ranks ranks) {
    if (ranks == CLI_RANKS_APART || !mica_group_is_started()) return CLI_DONE;
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* the launcher mixes what ranks write */
    mica_status status = mica_group_open(NULL, &group);
    if (status == MICA_EUNSUPPORTED && ranks != CLI_RANKS_TOGETHER) return CLI_DONE;
    if (status != MICA_OK) return cli_fail_status(status);
    if (mica_group_size(group) == 1) {
        mica_group_close(&group);
        return CLI_DONE;
    }
    if (mica_group_rank(group) > 0) silence();
    if (ranks == CLI_RANKS_TOGETHER) return CLI_DONE;
    if (mica_group_rank(group) == 0)
        cli_usage(word, "mica %s runs as one process, and not as the %d that were started", word,
                  mica_group_size(group));
    mica_group_close(&group);
    return CLI_USAGE;
}

void cli_ranks_end(int code) {
    if (!group) return;
    fflush(stdout);
    if (code != CLI_DONE && code != CLI_USAGE) mica_group_abort(group, code);
    mica_group_close(&group);
}

mica_group *cli_ranks_group(void) {
    return group;
}

int cli_ranks_own(void) {
    return mica_group_rank(group);
}

bool cli_ranks_share(void *bytes, size_t count) {
    if (!group) return true;
    mica_status status = mica_group_share(group, bytes, count, 0);
    if (status != MICA_OK) cli_fail_status(status);
    return status == MICA_OK;
}

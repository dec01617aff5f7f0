#include "shard.h"

#include <stdio.h>
#include <stdlib.h>

/* What schedulers and launchers set. `count` is how many there are; without it `last` is the number
 * of the last one, and `step` what lies between two. first NULL: numbers are from `from` on. A row
 * whose variables are not all there, or which says one, does not count. */
/* $SLURM_ARRAY_TASK_ID, $SLURM_ARRAY_TASK_MIN, $SLURM_ARRAY_TASK_MAX, $SLURM_ARRAY_TASK_STEP: the
 * part of its lines that mica batch answers, in an array of jobs of Slurm */
/* $SGE_TASK_ID, $SGE_TASK_FIRST, $SGE_TASK_LAST, $SGE_TASK_STEPSIZE: the part of
 * its lines that mica batch answers, in an array of jobs of Grid Engine */
/* $LSB_JOBINDEX, $LSB_JOBINDEX_END, $LSB_JOBINDEX_STEP: the part of its lines that mica
 * batch answers, in an array of jobs of LSF */
/* $SLURM_PROCID, $SLURM_STEP_NUM_TASKS: the part of its lines that mica batch answers, among
 * processes that srun has started */
/* $OMPI_COMM_WORLD_RANK, $PMI_RANK: the part of its lines that mica batch answers, among processes
 * that mpirun has started */
static const struct {
    const char *index, *first, *count, *last, *step;
    long from;
} launchers[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", NULL, "SLURM_ARRAY_TASK_MAX",
     "SLURM_ARRAY_TASK_STEP", 0},
    {"SGE_TASK_ID", "SGE_TASK_FIRST", NULL, "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", 0},
    {"LSB_JOBINDEX", NULL, NULL, "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", 1},
    {"SLURM_PROCID", NULL, "SLURM_STEP_NUM_TASKS", NULL, NULL, 0},
    {"OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_SIZE", NULL, NULL, 0},
    {"PMI_RANK", NULL, "PMI_SIZE", NULL, NULL, 0},
};

/* A variable that is a number; false: it is not there, or is none. */
static bool number_of(const char *name, long *number) {
    const char *text = name ? getenv(name) : NULL;
    char *end;
    if (!text || !*text) return false;
    *number = strtol(text, &end, 10);
    return !*end && *number >= 0;
}

static bool read_launcher(size_t i, cli_shard *shard) {
    long index, first = launchers[i].from, count, last, step = 1;
    if (!number_of(launchers[i].index, &index)) return false;
    if (launchers[i].first && !number_of(launchers[i].first, &first)) return false;
    if (number_of(launchers[i].step, &step) && step < 1) return false;
    if (number_of(launchers[i].last, &last))
        count = last < first ? 0 : (last - first) / step + 1;
    else if (!number_of(launchers[i].count, &count))
        return false;
    if (index < first || (index - first) / step >= count || count < 2) return false;
    *shard = (cli_shard){(size_t)((index - first) / step), (size_t)count, launchers[i].index};
    return true;
}

bool cli_shard_read(const char *text, cli_shard *shard) {
    unsigned long index, count;
    int end = 0;
    *shard = (cli_shard){0, 1, NULL};
    for (size_t i = 0; !text && i < sizeof launchers / sizeof *launchers; i++)
        if (read_launcher(i, shard)) return true;
    if (!text) return true;
    if (sscanf(text, "%9lu/%9lu%n", &index, &count, &end) != 2 || text[end]) return false;
    if (index < 1 || index > count) return false;
    *shard = (cli_shard){index - 1, count, NULL};
    return true;
}

bool cli_shard_has(const cli_shard *shard, size_t i) {
    return i % shard->count == shard->index;
}

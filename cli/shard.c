#include "shard.h"

#include <stdio.h>
#include <stdlib.h>

/* What schedulers and launchers set: arrays of jobs, then processes of a job. `count` is how many
 * there are; where there is a `last`, the number of the last one, `step` is what lies between two,
 * and `count`, if it is set, says whether any is missing. first NULL: numbers are from `from` on. A
 * row whose variables are not all there, or which says one, does not count. */
/* $SLURM_ARRAY_TASK_ID, $SLURM_ARRAY_TASK_MIN, $SLURM_ARRAY_TASK_MAX, $SLURM_ARRAY_TASK_STEP: the
 * part of its lines that mica batch answers, in an array of jobs of Slurm */
/* $SLURM_ARRAY_TASK_COUNT: whether jobs of that array are missing, so that parts are not known */
/* $SGE_TASK_ID, $SGE_TASK_FIRST, $SGE_TASK_LAST, $SGE_TASK_STEPSIZE: the part of
 * its lines that mica batch answers, in an array of jobs of Grid Engine */
/* $LSB_JOBINDEX, $LSB_JOBINDEX_END, $LSB_JOBINDEX_STEP: the part of its lines that mica
 * batch answers, in an array of jobs of LSF */
/* $SLURM_PROCID, $SLURM_STEP_NUM_TASKS: the part of its lines that mica batch answers, among
 * processes that srun has started */
/* $OMPI_COMM_WORLD_RANK, $PMI_RANK: the part of its lines that mica batch answers, among processes
 * that mpirun has started */
typedef struct launcher {
    const char *index, *first, *count, *last, *step;
    long from;
} launcher;

static const launcher arrays[] = {
    {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT",
     "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP", 0},
    {"SGE_TASK_ID", "SGE_TASK_FIRST", NULL, "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", 0},
    {"LSB_JOBINDEX", NULL, NULL, "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", 1},
};
static const launcher processes[] = {
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

/* One of those of a table that its variables describe; where there is none, the whole. */
static cli_shard find(const launcher *table, size_t count_of_table) {
    for (const launcher *l = table; l < table + count_of_table; l++) {
        long index, first = l->from, count, last, step = 1, said;
        if (!number_of(l->index, &index)) continue;
        if (l->first && !number_of(l->first, &first)) continue;
        if (number_of(l->step, &step) && step < 1) continue;
        bool counted = number_of(l->count, &said);
        if (number_of(l->last, &last))
            count = last < first ? 0 : (last - first) / step + 1;
        else if (counted && !l->last)
            count = said;
        else
            continue;
        if (index < first || (index - first) / step >= count) continue;
        if (count < 2 && !(counted && said != count)) continue;
        return (cli_shard){(size_t)((index - first) / step), (size_t)count, l->index, NULL,
                           counted && said != count};
    }
    return (cli_shard){0, 1, NULL, NULL, false};
}

bool cli_shard_read(const char *text, cli_shard *shard) {
    unsigned long index, count;
    int end = 0;
    *shard = (cli_shard){0, 1, NULL, NULL, false};
    if (!text) {
        const cli_shard job = find(arrays, sizeof arrays / sizeof *arrays);
        const cli_shard process = find(processes, sizeof processes / sizeof *processes);
        *shard = (cli_shard){job.index * process.count + process.index, job.count * process.count,
                             job.source ? job.source : process.source,
                             job.source ? process.source : NULL, job.gaps};
        return true;
    }
    if (sscanf(text, "%9lu/%9lu%n", &index, &count, &end) != 2 || text[end]) return false;
    if (index < 1 || index > count) return false;
    shard->index = index - 1;
    shard->count = count;
    return true;
}

bool cli_shard_has(const cli_shard *shard, size_t i) {
    return i % shard->count == shard->index;
}

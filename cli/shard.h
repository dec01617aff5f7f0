/* A part of many texts, for one of several processes: `--shard 2/8`, or the variables of a
 * cluster's scheduler. */
#ifndef CLI_SHARD_H
#define CLI_SHARD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_shard {
    size_t index, count;    /* index < count; count 1: all */
    const char *source;     /* the variable that says so; NULL: the option, or nothing */
    const char *and_source; /* the variable of a process within a job of an array; NULL: none */
    bool gaps; /* the array has jobs 1 and 3 and not 2: who has which part is not known */
} cli_shard;

/** Reads "I/N", 1 <= I <= N; NULL: what a scheduler's variables say, else all.
 *
 *  returns  false: the text is none */
bool cli_shard_read(const char *text, cli_shard *shard);

/** Whether the i-th text, from 0, is in it. */
bool cli_shard_has(const cli_shard *shard, size_t i);

#endif

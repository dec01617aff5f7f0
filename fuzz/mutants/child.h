/* The command mica in a process of its own, with limits. */
#ifndef MUTANTS_CHILD_H
#define MUTANTS_CHILD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct child_options {
    const char *mica;
    const char *dir; /* its working directory and HOME; input is read from input.txt there */
    bool sanitized;  /* mica is: no limit of memory, and more time */
} child_options;

typedef struct child_result {
    int code;            /* of its exit, or minus the signal that ended it */
    double seconds;      /* of all its threads on processors: how busy the machine is, is no part */
    size_t memory_bytes; /* the most that was resident, maps of files and its code with it */
} child_result;

/* Runs `mica argv[0] argv[1] ...`, argv[count] being NULL. What it says is in output.txt and
 * errors.txt of dir. One that does not end: CPU time ends it by SIGXCPU, and a minute of waiting by
 * SIGALRM. */
child_result child_run(const child_options *o, const char *const *argv, size_t count);

#endif

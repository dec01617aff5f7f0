/* Runs the command mica in a child process with limits. */
#ifndef MUTANTS_CHILD_H
#define MUTANTS_CHILD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct child_options {
    const char *mica;
    const char *dir; /* its working directory and HOME; stdin is input.txt there */
    bool sanitized;  /* mica has sanitizers: no memory limit, and more time */
} child_options;

typedef struct child_result {
    int code;            /* exit code, or minus the signal that ended it */
    double seconds;      /* CPU time of all its threads, which does not depend on other programs */
    size_t memory_bytes; /* peak resident memory, with mapped files and code */
} child_result;

/* Runs `mica argv[0] argv[1] ...`; argv[count] is NULL. Its output is in output.txt and errors.txt
 * of dir. A command that does not end is ended by SIGXCPU for its CPU time, or by SIGALRM after a
 * minute. */
child_result child_run(const child_options *o, const char *const *argv, size_t count);

#endif

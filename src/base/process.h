/* A child process that is talked to in lines: text to its standard input, lines from its standard
 * output. Its standard error is captured.
 *
 * This is the only place where the library starts a process, and it is done by posix_spawn: nothing
 * forks. The child inherits no descriptor but these three, has default signal handlers and an empty
 * mask, and a process group of its own, which mc_process_close ends. It gets no terminal signals.
 * On Windows it is in a job and has no console, which comes to the same; the job ends with this
 * process.
 * If this process dies, however it does, the child reads the end of its input: it must exit then.
 * Writing to a child that is gone is a status: no SIGPIPE is raised. A fork of this process has no
 * part in its children: it holds none of their descriptors, talks to none and ends none.
 *
 * Threads: one may write while another reads; each of these one at a time. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/status.h"
#include "base/str.h"

#include <mica/api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

typedef struct mc_process mc_process;

typedef struct mc_process_options {
    const char *const *argv; /* ends with NULL; a name without '/' is looked for on PATH, on Windows
                               among .exe files alone. Borrowed */
    const char *const *env;  /* NAME=VALUE, besides this process's own variables or instead of them;
                                ends with NULL. NULL: none. Borrowed */
    size_t max_line_bytes;   /* a longer line is an error */
} mc_process_options;

/* Starts a child.
 * errors  MICA_ENOENT there is no such program; MICA_EIO it cannot be started; MICA_ENOMEM */
mica_status mc_process_start(const mc_process_options *options, mc_process **process);

/* Writes n bytes to the child. deadline: as mc_now_us tells the time.
 * errors  MICA_EIO the child has closed its input, or has not read all of it in time; this process
 *         is a fork of the one that started it */
mica_status mc_process_write(mc_process *process, const char *bytes, size_t n, uint64_t deadline);

typedef enum mc_process_got {
    MC_PROCESS_LINE,  /* a line, without its line feed */
    MC_PROCESS_LATER, /* none before the deadline */
    MC_PROCESS_END    /* the child has closed its output. *line is what followed the last line
                         feed, if anything did */
} mc_process_got;

/* Reads a line from the child, valid until the next call. A deadline that is over: one that is here
 * already.
 * errors  MICA_EFORMAT a longer line than the options allow; MICA_EIO, MICA_ENOMEM */
mica_status mc_process_read(mc_process *process, uint64_t deadline, mc_str *line,
                            mc_process_got *got);

/* The last 4,096 bytes of what the child wrote to its standard error, and was read by
 * mc_process_read so far; "" for nothing. Lives until the next call with this process. */
const char *mc_process_errors(mc_process *process);

/* How a child ended whose output is at its end: "ended with status 1", "was killed by signal 9"
 * (on Windows "was ended by exception 0xC0000005"), or "closed its output". Waits up to a fifth
 * of a second for its end. Static storage or the process's. */
const char *mc_process_describe_end(mc_process *process);

int64_t mc_process_id(const mc_process *process);

/* Closes the child's input, waits until it has ended, or kills it and its process group after
 * `grace_us`. Leaves no zombie. Sets *process to NULL; does nothing for NULL. */
void mc_process_close(mc_process **process, uint64_t grace_us);

MICA_END

#endif

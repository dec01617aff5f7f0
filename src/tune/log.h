/* Logs of training: lines of JSON, and TensorBoard's event files. Threads: one at a time. */
#ifndef TUNE_LOG_H
#define TUNE_LOG_H

#include "base/status.h"

#include <mica/tune.h>

#include <stdio.h>

typedef struct mc_log {
    FILE *lines, *events; /* NULL: none */
    const char *lines_path, *events_folder;
    char *events_path;
} mc_log;

/* Opens files to add to. paths may be NULL: none; they are borrowed.
 * errors  MICA_EIO, MICA_ENOENT, MICA_ENOMEM. Closed by mc_log_close, after an error too */
mica_status mc_log_open(mc_log *log, const char *lines, const char *events);
/* Adds a report to both. A file that cannot be written, or is out of memory, is closed: later
 * reports go to the other one alone. errors  MICA_EIO, MICA_ENOMEM */
mica_status mc_log_report(mc_log *log, const mica_tune_report *report);
/* Returns 0, or the errno of a file whose last bytes were not written. Sets no error text. */
int mc_log_close(mc_log *log);

#endif

/* Lines for the program's hook (mica/log.h). Without one they cost a read of a flag. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/format.h"

#include <mica/log.h>

#include <stdbool.h>

/* mica_log_hook_set; false: a hook called it. */
bool mc_log_set(mica_log_hook hook, void *user);

/* Gives the hook a line, cut at 1,023 bytes. Keeps the thread's error text. */
void mc_log_line(mica_log_level level, const char *fmt, ...) MC_PRINTF(2, 3);

/* The same of a text that is whole: it may be the thread's error text. */
void mc_log_text(mica_log_level level, const char *text);

#endif

/* What all of the command shares. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

/* Exit codes. CLI_AGAIN is EX_TEMPFAIL of sysexits.h: a scheduler may try it again. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_AGAIN = 75, CLI_INTERRUPTED = 130 };

/* Rows of a table. */
#define CLI_COUNT(table) (sizeof(table) / sizeof((table)[0]))

#endif

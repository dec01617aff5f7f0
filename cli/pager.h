/* A pager at a terminal: $MANPAGER, else $PAGER, else less, else none. */
#ifndef CLI_PAGER_H
#define CLI_PAGER_H

/** Sends what is printed on stdout through a pager from now on, if stdout is a terminal. */
void cli_pager_start(void);

/** Ends the output, and waits until the pager is left. Does nothing without one.
 *
 *  returns  an exit code */
int cli_pager_end(void);

#endif

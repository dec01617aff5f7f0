/* Ctrl-C. While an answer or a task is watched the first one asks it to stop; a second one, or one
 * at any other moment, ends the program with 130. A chat keeps those of other moments for its
 * prompt. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <mica/mica.h>

#include <stdbool.h>

/** Installs the handlers. Called once, on the main thread, before any other thread starts. */
void cli_interrupt_init(void);

/** From now on the first interrupt cancels this stream; NULL: no stream. Never leave a closed
 *  stream watched. */
void cli_interrupt_watch(mica_stream *stream);

/** From now on the first interrupt sets this flag, which tasks watch; NULL: none. Never leave a
 *  closed one watched. */
void cli_interrupt_watch_task(mica_cancel *cancel);

/** From now on an interrupt while nothing is watched is kept, and only a second one ends the
 *  program; until it is called with false. */
void cli_interrupt_keep(bool on);

/** Whether an interrupt was kept, which is forgotten. */
bool cli_interrupt_take(void);

/** Waits until standard input can be read.  returns false where an interrupt was kept before, or
 *  came meanwhile; that is taken */
bool cli_interrupt_wait_input(void);

/** Leaves the terminal as it was found, which line editing changes. May be called in a handler. */
void cli_interrupt_restore_terminal(void);

/** What is written to the terminal where an interrupt ends the program: an escape sequence that
 *  undoes another one. Static storage; "" for nothing. */
void cli_interrupt_set_farewell(const char *text);

#endif

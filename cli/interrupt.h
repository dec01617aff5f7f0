/* Ctrl-C. While an answer or a task is watched, the first interrupt cancels it. A second one, or
 * one at any other time, ends the program with exit code 130. A chat keeps interrupts of other
 * times for its prompt. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <mica/mica.h>

#include <stdbool.h>

/** Installs the handlers. Called once, on the main thread, before any other thread starts. */
void cli_interrupt_init(void);

/** SIGTERM, by which schedulers take a machine back, cancels as Ctrl-C does. */
void cli_interrupt_take_term(void);

/** Whether it has come. */
bool cli_interrupt_by_term(void);

/** From now on a pipe that its reader closes is an error of the write: the program goes on. */
void cli_interrupt_survive_pipe(void);

/** From now on the first interrupt cancels this stream; NULL: no stream. The stream must be
 *  unwatched before it is closed. */
void cli_interrupt_watch(mica_stream *stream);

/** From now on the first interrupt sets this flag, which tasks poll; NULL: none. The flag must be
 *  unwatched before it is closed. */
void cli_interrupt_watch_task(mica_cancel *cancel);

/** From now on, until it is called with false, an interrupt while nothing is watched is kept, and
 *  only the second one ends the program. */
void cli_interrupt_keep(bool on);

/** Whether an interrupt was kept. Clears it. */
bool cli_interrupt_take(void);

/** Waits until standard input can be read.  returns false if an interrupt was kept or came
 *  meanwhile, and clears it */
bool cli_interrupt_wait_input(void);

/** Restores the terminal's modes, which line editing changes. Async-signal-safe. */
void cli_interrupt_restore_terminal(void);

/** Sets the text that is written to the terminal when an interrupt ends the program: an escape
 *  sequence that undoes another one. Static storage; "" for none. */
void cli_interrupt_set_farewell(const char *text);

#endif

/* Handles SIGBUS from truncated files. If a mapped file is truncated, reading its lost pages raises
 * SIGBUS: the program prints a message and exits with 1. */
#ifndef CLI_FAULT_H
#define CLI_FAULT_H

/** Installs the handler. Called once, after cli_interrupt_init. */
void cli_fault_init(void);

#endif

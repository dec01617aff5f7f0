/* Files that are cut while they are mapped. Their pages are gone then, and whoever reads them gets
 * SIGBUS: the program says so and ends. */
#ifndef CLI_FAULT_H
#define CLI_FAULT_H

/** Installs the handler. Called once, after cli_interrupt_init. */
void cli_fault_init(void);

#endif

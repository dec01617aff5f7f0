/* What mica serve asks of the system. */
#ifndef CLI_SERVE_SYSTEM_H
#define CLI_SERVE_SYSTEM_H

/** From now on whoever asks this program to end calls `on_stop` instead: Ctrl-C, SIGTERM, SIGHUP
 *  unless it is ignored. on_stop is async-signal-safe. */
void cli_serve_watch_signals(void (*on_stop)(int signo));

/** Lets this process open as many files as the system allows: each connection takes one. */
void cli_serve_raise_files(void);

#endif

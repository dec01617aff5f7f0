/* How a program that runs for long keeps memory that it freed. */
#ifndef CLI_HEAP_H
#define CLI_HEAP_H

#include <mica/mica.h>

/** Sets the allocator up for blocks of all sizes that many threads allocate and free. Called before
 *  there are threads. Does nothing where the allocator has no such settings. */
void cli_heap_set_up(void);

/** Begins a thread that gives freed memory back to the system once nothing is under way in a
 *  server. Does nothing where the allocator has no function for that. */
void cli_heap_watch(const mica_server *server);

/** Ends the thread, before the server is closed. */
void cli_heap_unwatch(void);

#endif

/* How the program's allocator keeps memory that was freed. */
#ifndef CLI_HEAP_H
#define CLI_HEAP_H

/** Has freed memory go back to the system soon, in a process that runs for long and frees blocks of
 *  all sizes from many threads. Called before there are threads. Does nothing where the allocator
 *  has no such settings. */
void cli_heap_give_back(void);

#endif

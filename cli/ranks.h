/* The ranks that run one command together: mpirun -n 2 mica run MODEL.
 *
 * All have the same arguments and do the same. Rank 0 alone reads standard input, which it gives to
 * the others, and prints results; errors of the others name their rank. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "options.h"

#include <mica/group.h>

#include <stdbool.h>
#include <stddef.h>

/** Opens the group if a launcher has started this process as one of several, and the verb, called
 *  `word`, is not one that ranks do apart. Where mica has no library for MPI, only verbs
 *  that ranks do together need one.
 *  returns  an exit code; CLI_DONE also where there is no group */
int cli_ranks_begin(const char *word, cli_ranks ranks);

/** Closes it. Where this rank failed, all ranks end. */
void cli_ranks_end(int code);

/** The group; NULL: there is none, or it has one rank. */
mica_group *cli_ranks_group(void);

/** This process's rank; 0 without a group. */
int cli_ranks_own(void);

/** Gives bytes of rank 0 to all; nothing without a group. false: it failed, as was reported. */
bool cli_ranks_share(void *bytes, size_t count);

#endif

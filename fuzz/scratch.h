/* A folder of the process for the targets that write files and read them back. */
#ifndef FUZZ_SCRATCH_H
#define FUZZ_SCRATCH_H

/* "<a new folder>/name", the same for each call, in memory that stays; what is there goes when the
 * process ends. name: one of at most 8. */
const char *fuzz_scratch(const char *name);

#endif

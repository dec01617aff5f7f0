/* Whether a program computes the rows of a symbol, its outermost axis, each by itself: then the
 * first rows of a longer run are those of a shorter one. */
#ifndef EXEC_EXTENT_H
#define EXEC_EXTENT_H

#include "exec/program.h"

enum { MC_EXTENT_TEXT = 160 };

/* cause  [MC_EXTENT_TEXT] receives "" where it does; else which node mixes rows, or is not known to
 *        keep them apart.
 * errors  MICA_ENOMEM */
mica_status mc_extent_check(const mica_program *p, size_t symbol, char *cause);

#endif

/* What a build for one machine left out (MICA_ISAS). */
#ifndef CPU_KERN_WHOLE_H
#define CPU_KERN_WHOLE_H

#include "cpu/kern/kern.h"

/* Whether this build has all kernels of a set: none that better ones replace was left out
 * (below_list.h). */
bool mk_isa_whole(mk_isa isa);

#endif

/* mica_cancel (mica/model.h): a flag that one thread sets and long work looks at.
 *
 * Threads: any. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include "base/status.h"

#include <mica/model.h>

/* errors  MICA_ECANCELLED the flag is set; cancel may be NULL */
mica_status mc_cancel_check(const mica_cancel *cancel);

#endif

/* Checking a mica_cancel (mica/model.h), the flag that ends long work.
 *
 * Threads: any. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include "base/status.h"

#include <mica/model.h>

/* cancel may be NULL. errors  MICA_ECANCELLED the flag is set */
mica_status mc_cancel_check(const mica_cancel *cancel);

#endif

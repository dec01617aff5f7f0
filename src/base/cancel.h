/* Checking a mica_cancel (mica/model.h), the flag that ends long work.
 *
 * Threads: any. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include "base/status.h"

#include <mica/model.h>

#include <stdatomic.h>

struct mica_cancel {
    atomic_bool set;
    const mica_cancel *also[2]; /* as good as set where one of them is; NULL: none */
};

/* Makes a flag that is set where one of two is that mica_cancel_open gave, or NULL. Both are
 * borrowed; there is nothing to close. */
void mc_cancel_init_either(mica_cancel *either, const mica_cancel *a, const mica_cancel *b);

/* cancel may be NULL. errors  MICA_ECANCELLED the flag is set */
mica_status mc_cancel_check(const mica_cancel *cancel);

#endif

#include "cpu/kern/ahead.h"

_Atomic int64_t mk_ahead_chosen;

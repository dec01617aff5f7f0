#include "cpu/kern/has_amx.h"

bool mk_amx_allowed(void) {
    return false;
}

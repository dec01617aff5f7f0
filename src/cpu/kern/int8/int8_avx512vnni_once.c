#define MK_TWICE false
#include "cpu/kern/int8/int8_avx512vnni_in_order_tmpl.h"

one_fn mk_int8_one_avx512vnni_once(const mk_qrows *w) {
    return in_order_of(w);
}

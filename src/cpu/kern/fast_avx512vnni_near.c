#define MK_NEAR true
#include "cpu/kern/fast_avx512vnni_one_text.h"

one_fn mk_fast_one_avx512vnni_near(const mk_qrows *w) {
    return one_of(w);
}

#include "text/tokenizer/work.h"

#include <stdint.h>

void mc_work_begin(mc_work *work, size_t len, mc_growth growth) {
    bool fits = len < (SIZE_MAX - growth.base) / growth.factor;
    work->left = fits ? len * growth.factor + growth.base : SIZE_MAX;
    work->growth = growth;
}

void mc_work_deinit(mc_work *work) {
    mc_regex_room_deinit(&work->regex);
}

mica_status mc_work_refuse(const mc_work *work) {
    return mc_fail(
        MICA_EUNSUPPORTED,
        "the steps of the tokenizer add more to a text than %zu bytes for each byte, and "
        "%zu",
        work->growth.factor, work->growth.base);
}

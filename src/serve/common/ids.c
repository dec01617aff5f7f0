#include "serve/common/ids.h"

#include <stdint.h>

bool mc_ids_read(mc_json array, size_t limit, const char *name, mc_buffer *ids,
                 mc_failure *failure) {
    size_t i = 0;
    for (mc_json_iter it = mc_json_begin(array); mc_json_next(&it); i++) {
        int64_t id;
        bool fits = mc_json_get_int(it.value, &id) && id >= 0 && (uint64_t)id < limit;
        if (fits && MC_BUFFER_PUSH(ids, int32_t, (int32_t)id)) continue;
        mc_buffer_deinit(ids);
        if (fits) return mc_failure_of(failure, mc_fail_nomem("token ids"), name);
        return mc_failure_set(failure, 400, "invalid_value", name,
                              "%s[%zu]: want a token id, 0 to %zu", name, i, limit - 1);
    }
    return true;
}

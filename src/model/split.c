#include "model/split.h"

/* All ranks' parts along the last axis: [.., part] -> [.., rows]. Where parts are not equal, those
 * of the last rank begin with rows that the one before has, too. */
static mica_array join(mica_scope *s, const mc_linear *linear, mica_array x, int64_t rows,
                       mica_array *order) {
    int64_t size = mica_group_size(linear->group), part = mica_array_dim(x, -1);
    mica_array y = mica_all_gather(s, linear->group, x, -1, order);
    if (part * size == rows || !mica_valid(y)) return y;
    int64_t first = part * (size - 1);
    mica_array parts[] = {mica_slice_axis(s, y, -1, 0, first),
                          mica_slice_axis(s, y, -1, part * size - (rows - first), part * size)};
    return mica_concatenate(s, parts, 2, -1);
}

static mica_array join_input(mica_scope *s, const mc_linear *linear, mica_array x,
                             mica_array *order) {
    return linear->joins ? join(s, linear, x, linear->in, order) : x;
}

static mica_array join_results(mica_scope *s, const mc_linear *linear, mica_array y,
                               mica_array *order) {
    return linear->whole ? join(s, linear, y, linear->whole, order) : y;
}

mica_array mc_split_apply(mica_scope *s, const mc_linear *linear, mica_array x, mica_array *order) {
    x = join_input(s, linear, x, order);
    return join_results(s, linear, mc_linear_apply(s, linear, x), order);
}

mica_array mc_split_pick(mica_scope *s, const mc_linear *linear, mica_array x, mica_array picks,
                         mica_array *order) {
    x = join_input(s, linear, x, order);
    return join_results(s, linear, mc_linear_pick(s, linear, x, picks), order);
}

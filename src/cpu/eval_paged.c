/* Writing the rows of new keys and values into the blocks of a pool. */
#include <string.h>

#include "cpu/copy.h"
#include "cpu/eval.h"
#include "cpu/rows.h"

enum { POOL, ROWS, SLOTS };
enum { HEADS, BLOCKS, ENTRIES, WIDTH }; /* of a pool */

typedef struct write_work {
    const mc_operand *x, *slots;
    const mc_layout *pool;
    char *data;        /* the pool's */
    int64_t all_slots; /* of the pool */
} write_work;

/* The slot of token l of batch row b, not negative where it is in range. */
static int64_t slot_at(const write_work *w, int64_t b, int64_t l) {
    const int64_t *strides = w->slots->layout->strides;
    int64_t slot = ((const int32_t *)w->slots->data)[b * strides[0] + l * strides[1]];
    return slot < 0 ? slot + w->all_slots : slot;
}

static mica_status check_slots(const write_work *w) {
    const int64_t *shape = w->slots->layout->shape;
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t l = 0; l < shape[1]; l++) {
            int64_t slot = slot_at(w, b, l);
            if (slot >= 0 && slot < w->all_slots) continue;
            return mc_fail(MICA_EINVAL, "kv_write: slot %lld of a pool that has %lld",
                           (long long)(slot < 0 ? slot - w->all_slots : slot),
                           (long long)w->all_slots);
        }
    return MICA_OK;
}

static void copy_row(char *to, const char *from, int64_t n, int64_t stride, int64_t item) {
    if (stride == 1) {
        memcpy(to, from, (size_t)(n * item));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * item, from + i * stride * item, (size_t)item);
}

/* Rows of x [B, H, L, W], in logical order. */
static void write_rows(void *context, int64_t begin, int64_t end, int worker) {
    const write_work *w = context;
    const mc_layout *x = w->x->layout, *pool = w->pool;
    int64_t item = (int64_t)mica_dtype_bytes(x->dtype), width = x->shape[WIDTH];
    mc_row_walk from = mc_row_walk_begin(x, WIDTH, begin);
    (void)worker;
    for (int64_t r = begin; r < end; r++, mc_row_walk_next(&from)) {
        int64_t slot = slot_at(w, from.coords[0], from.coords[2]);
        int64_t to = from.coords[1] * pool->strides[HEADS] +
                     slot / pool->shape[ENTRIES] * pool->strides[BLOCKS] +
                     slot % pool->shape[ENTRIES] * pool->strides[ENTRIES];
        copy_row(w->data + to * item, (const char *)w->x->data + from.offset * item, width,
                 x->strides[WIDTH], item);
    }
}

mica_status mc_stage_kv_write(const mc_call *call, mc_stage *stage) {
    const mc_layout *pool = call->out.layout, *x = call->in[ROWS].layout;
    write_work *w = mc_stage_memory(stage, sizeof *w);
    if (!w) return MICA_OK;
    *w = (write_work){.x = &call->in[ROWS], .slots = &call->in[SLOTS], .pool = pool};
    w->data = call->out.data;
    w->all_slots = pool->shape[BLOCKS] * pool->shape[ENTRIES];
    MC_TRY(check_slots(w));
    mc_copy_base(call, &call->in[POOL]);
    int64_t bytes = x->shape[WIDTH] * (int64_t)mica_dtype_bytes(x->dtype);
    mc_stage_set(stage, write_rows, w, bytes > 0 ? mc_row_count(x, WIDTH) : 0,
                 bytes > 0 ? MC_COPY_GRAIN / bytes : 1);
    return MICA_OK;
}

#include "exec/steps/prepared.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "device/mapped.h"

struct mc_prepared {
    mc_prepared *next;
    unsigned users;
    mc_op op;
    uint64_t form;
    mc_storage *from; /* held, so that nothing else gets its address */
    const void *data; /* the constant's first element */
    mc_layout layout; /* its */
    mc_storage *made;
    size_t bytes;
};

static bool is_same_layout(const mc_layout *a, const mc_layout *b) {
    return a->dtype == b->dtype && mc_layout_same_shape(a, b) &&
           memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) == 0;
}

/* Under the lock. */
static mc_prepared *find(mica_device *device, const mc_call *call, const mc_prepare *want) {
    const mc_operand *x = &call->in[want->operand];
    mc_prepared *p = device->prepared;
    while (p && (p->op != call->op || p->form != want->form || p->data != x->data ||
                 p->bytes != want->bytes || !is_same_layout(&p->layout, x->layout)))
        p = p->next;
    return p;
}

/* Under the lock: others that want the same wait. */
static mica_status make(mica_device *device, const mc_step_ops *ops, const mc_call *call,
                        const mc_prepare *want, mc_storage *from) {
    const mc_operand *x = &call->in[want->operand];
    mc_storage *scratch = NULL;
    mc_prepared *p = mc_alloc(sizeof *p);
    if (!p) return mc_fail_nomem("an executable");
    *p = (mc_prepared){.next = device->prepared,
                       .op = call->op,
                       .form = want->form,
                       .data = x->data,
                       .layout = *x->layout,
                       .bytes = want->bytes};
    mica_status status = mc_storage_new(device, want->bytes, &p->made);
    if (status == MICA_OK) status = mc_storage_new(device, want->scratch_bytes, &scratch);
    if (status != MICA_OK) {
        mc_storage_release(p->made);
        mc_free(p);
        return status;
    }
    ops->prepare(call, want, scratch->address, p->made->address);
    mc_storage_release(scratch);
    p->from = mc_storage_retain(from);
    mc_storage_leave_memory(from, x->data, (size_t)mc_layout_bytes(x->layout));
    device->prepared = p;
    return MICA_OK;
}

/* Under the lock. */
static bool has_room(mica_device *device, const mc_prepare *want, uint64_t left) {
    uint64_t bytes = mc_memory_rounded(want->bytes) + mc_memory_rounded(want->scratch_bytes);
    return mc_device_free_bytes(device) >= bytes + left;
}

mica_status mc_prepared_get(mica_device *device, const mc_step_ops *ops, const mc_call *call,
                            const mc_prepare *want, mc_storage *from, uint64_t left,
                            mc_prepared **prepared) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&device->prepared_lock);
    mc_prepared *p = find(device, call, want);
    if (!p && has_room(device, want, left)) {
        status = make(device, ops, call, want, from);
        if (status == MICA_OK) p = device->prepared;
    }
    if (p) p->users++;
    pthread_mutex_unlock(&device->prepared_lock);
    *prepared = p;
    return status;
}

void mc_prepared_put(mica_device *device, mc_prepared *p) {
    if (!p) return;
    pthread_mutex_lock(&device->prepared_lock);
    bool last = --p->users == 0;
    mc_prepared **at = &device->prepared;
    while (last && *at != p)
        at = &(*at)->next;
    if (last) *at = p->next;
    pthread_mutex_unlock(&device->prepared_lock);
    if (!last) return;
    mc_storage_release(p->made);
    mc_storage_release(p->from);
    mc_free(p);
}

const void *mc_prepared_data(const mc_prepared *p) {
    return p ? p->made->address : NULL;
}

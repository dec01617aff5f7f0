#include "exec/compiled.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/lower.h"

/* Where the data of a slot is: on the device, on the fallback, or on both. */
typedef struct slot {
    mc_binding at[2]; /* storages: references, but for those of parameters on the device */
    bool borrowed[2]; /* at[] is the caller's */
} slot;

/* Kept between runs, so that a replay allocates nothing. */
struct mc_frame {
    mc_frame *next;
    const mc_compiled *compiled;
    mica_device *devices[2];
    slot *slots;      /* [n_slots] */
    mc_binding *args; /* [most args of a segment] */
    mc_result *results;
    mc_storage **numbers; /* [most args of a segment] */
    uint64_t *scalars;
};

/* ---- making ---- */

static mica_status open_lists(mc_compiled *c, const mc_lowered *lowered) {
    c->n_params = lowered->n_params;
    c->n_scalars = lowered->n_scalars;
    c->n_results = lowered->n_results;
    c->params = mc_arena_alloc(&c->arena, c->n_params * sizeof *c->params);
    c->results = mc_arena_alloc(&c->arena, c->n_results * sizeof *c->results);
    c->result_slots = mc_arena_alloc(&c->arena, c->n_results * sizeof *c->result_slots);
    c->stays = mc_arena_alloc(&c->arena, (c->n_results + 1) * sizeof *c->stays);
    if (!c->params || !c->results || !c->result_slots || !c->stays)
        return mc_fail_nomem("compiling a graph");
    memcpy(c->params, lowered->params, c->n_params * sizeof *c->params);
    memcpy(c->stays, lowered->stays, c->n_results * sizeof *c->stays);
    return MICA_OK;
}

static void add_executable(mc_compiled *c, const mc_executable *x) {
    c->bytes += x->bytes;
    for (int i = 0; x->changed && i < MC_PASS_COUNT; i++)
        c->changed[i] += x->changed[i];
}

/* The whole graph is the device's: one segment, whose parameters and results are the whole's. */
static mica_status compile_whole(mc_compiled *c, mc_lowered *lowered) {
    mc_segment *segment = mc_arena_calloc(&c->arena, sizeof *segment);
    if (!segment) {
        mc_lowered_free(lowered);
        return mc_fail_nomem("compiling a graph");
    }
    segment->device = c->device;
    MC_TRY(c->device->backend->compile(c->device, lowered, &segment->executable));
    c->segments = segment;
    c->n_segments = 1;
    c->whole = true;
    add_executable(c, segment->executable);
    memcpy(c->results, segment->executable->results, c->n_results * sizeof *c->results);
    return MICA_OK;
}

static void tell(const mc_compiled *c, size_t *bytes, uint32_t *changed) {
    *bytes += c->bytes;
    for (int i = 0; i < MC_PASS_COUNT; i++)
        changed[i] += c->changed[i];
}

static const mc_graph_runner runner = {.make = mc_compiled_make,
                                       .free = mc_compiled_free,
                                       .tell = tell,
                                       .measure = mc_compiled_measure,
                                       .run = mc_compiled_run};

static mica_status compile_control(mc_compiled *c, const mc_part *part, const mc_lowered *whole,
                                   mc_segment *segment) {
    const mc_layout *results = mc_node_results(part->control);
    *segment = (mc_segment){.device = c->device,
                            .n_args = part->control->n_in,
                            .n_results = (uint32_t)mc_node_n_out(part->control),
                            .control_args = part->control_args,
                            .results = part->results};
    MC_TRY(mc_control_compile(c->device, part->control, whole, &runner, &segment->control));
    c->n_segments++;
    mc_control_tell(segment->control, &c->bytes, c->changed);
    for (uint32_t i = 0; i < segment->n_results; i++)
        if (segment->results[i] != MC_ABSENT) c->layouts[segment->results[i]] = results[i];
    return MICA_OK;
}

static mica_status compile_part(mc_compiled *c, mc_part *part, const mc_lowered *whole,
                                mc_segment *segment) {
    if (part->control) return compile_control(c, part, whole, segment);
    mica_device *device = c->device;
    mica_status status = part->fallback ? mc_device_fallback(c->device, &device) : MICA_OK;
    *segment = (mc_segment){.device = device,
                            .n_args = part->lowered->n_params,
                            .n_scalars = part->lowered->n_scalars,
                            .n_results = part->lowered->n_results,
                            .args = part->args,
                            .scalars = part->scalars,
                            .results = part->results};
    if (status == MICA_OK) {
        mc_lowered *lowered = part->lowered;
        part->lowered = NULL; /* the device's from here on */
        status = device->backend->compile(device, lowered, &segment->executable);
    }
    if (status != MICA_OK) return status;
    c->n_segments++;
    add_executable(c, segment->executable);
    for (uint32_t i = 0; i < segment->n_results; i++)
        c->layouts[segment->results[i]] = segment->executable->results[i];
    return MICA_OK;
}

static mica_status compile_parts(mc_compiled *c, const mc_lowered *lowered,
                                 const mc_buffer *fallback) {
    mc_part *parts;
    uint32_t n_parts;
    uint32_t n_fallback = (uint32_t)MC_BUFFER_COUNT(fallback, uint32_t);
    c->n_fallback = n_fallback - lowered->n_placed;
    MC_TRY(mc_split(c->device, lowered, MC_BUFFER_AT(fallback, uint32_t), n_fallback, &c->arena,
                    &parts, &n_parts, c->result_slots, &c->n_slots));
    c->layouts = mc_arena_calloc(&c->arena, c->n_slots * sizeof *c->layouts);
    c->segments = mc_arena_calloc(&c->arena, n_parts * sizeof *c->segments);
    mica_status status = c->layouts && c->segments ? MICA_OK : mc_fail_nomem("compiling a graph");
    for (uint32_t i = 0; status == MICA_OK && i < mc_scope_count(lowered->graph); i++) {
        const mc_node *node = mc_scope_node(lowered->graph, i);
        if (node->param) c->layouts[node->value] = node->layout;
    }
    for (uint32_t i = 0; status == MICA_OK && i < n_parts; i++)
        status = compile_part(c, &parts[i], lowered, &c->segments[i]);
    for (uint32_t i = 0; i < n_parts; i++)
        mc_lowered_free(parts[i].lowered);
    for (uint32_t i = 0; status == MICA_OK && i < c->n_results; i++)
        c->results[i] = c->layouts[c->result_slots[i]];
    return status;
}

size_t mc_compiled_bytes(const mc_compiled *c) {
    size_t bytes = c->bytes;
    for (uint32_t i = 0; i < c->n_segments; i++)
        if (c->segments[i].executable)
            bytes +=
                atomic_load_explicit(&c->segments[i].executable->kept_bytes, memory_order_relaxed);
    return bytes;
}

mica_status mc_compiled_make(mica_device *device, const mc_trace *trace, mc_compiled **compiled) {
    mc_lowered *lowered = NULL;
    mc_buffer fallback = {0};
    mc_compiled *c = *compiled = mc_calloc(1, sizeof *c);
    if (!c) return mc_fail_nomem("compiling a graph");
    c->device = device;
    c->bytes = sizeof *c;
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        mc_free(c);
        *compiled = NULL;
        return mc_fail(MICA_EDEVICE, "cannot make a mutex for a compiled graph");
    }
    mica_status status = mc_lower_ops(device, trace, &lowered, &fallback);
    if (status == MICA_OK) status = open_lists(c, lowered);
    c->falls_back = fallback.len > 0 || trace->placed;
    if (status == MICA_OK && (c->falls_back || mc_has_control(lowered))) {
        status = compile_parts(c, lowered, &fallback);
    } else if (status == MICA_OK) {
        status = compile_whole(c, lowered);
        lowered = NULL; /* the device's */
    }
    mc_lowered_free(lowered);
    mc_buffer_deinit(&fallback);
    c->bytes += mc_arena_bytes(&c->arena);
    if (status != MICA_OK) {
        mc_compiled_free(c);
        *compiled = NULL;
    }
    return status;
}

void mc_compiled_free(mc_compiled *c) {
    if (!c) return;
    while (c->spare) {
        mc_frame *f = c->spare;
        c->spare = f->next;
        mc_free(f);
    }
    for (uint32_t i = 0; i < c->n_segments; i++) {
        mc_segment *segment = &c->segments[i];
        if (segment->executable) segment->device->backend->discard(segment->executable);
        mc_control_free(segment->control);
    }
    pthread_mutex_destroy(&c->lock);
    mc_arena_deinit(&c->arena);
    mc_free(c);
}

/* ---- memory ---- */

static mica_status measure_segment(const mc_segment *segment, mc_launch_memory *memory) {
    const mc_backend *backend = segment->device->backend;
    if (segment->control) return mc_control_measure(segment->control, memory);
    if (backend->measure) return backend->measure(segment->executable, memory);
    return mc_fail(MICA_EUNSUPPORTED, "before a run nobody knows what %s takes", backend->name);
}

/* Segments keep what they made until the run is over. */
mica_status mc_compiled_measure(const mc_compiled *c, mc_launch_memory *memory) {
    uint64_t made = 0, peak = 0, results = 0, prepared = 0;
    if (c->falls_back)
        return mc_fail(MICA_EUNSUPPORTED,
                       "before a run nobody knows what %s takes beside other devices",
                       c->device->backend->name);
    if (c->whole) return measure_segment(c->segments, memory);
    for (uint32_t i = 0; i < c->n_segments; i++) {
        mc_launch_memory own = {0};
        MC_TRY(measure_segment(&c->segments[i], &own));
        if (made + own.results + own.others > peak) peak = made + own.results + own.others;
        made += own.results;
        prepared += own.prepared;
    }
    for (uint32_t i = 0; i < c->n_results; i++)
        if (c->result_slots[i] >= c->n_params) results += (uint64_t)mc_layout_bytes(&c->results[i]);
    if (results > peak) results = peak;
    *memory =
        (mc_launch_memory){.results = results, .others = peak - results, .prepared = prepared};
    return MICA_OK;
}

/* ---- running several segments ---- */

static void release_reference(void *storage) {
    mc_storage_release(storage);
}

/* The data of a view on another device, with the same strides. */
static mica_status copy_across(mica_device *from, const mc_binding *x, const mc_layout *layout,
                               mica_device *to, mc_binding *out) {
    int64_t first, bytes;
    const void *data;
    void *owned;
    mc_layout_span(layout, &first, &bytes);
    *out = (mc_binding){.offset_bytes = -first};
    if (bytes > 0 && x->storage->host && to->backend->host_memory) {
        const char *at = (const char *)x->storage->host + x->offset_bytes + first;
        MC_TRY(mc_storage_adopt(to, at, (size_t)bytes, release_reference,
                                mc_storage_retain(x->storage), &out->storage));
        out->address = out->storage->address;
        return MICA_OK;
    }
    MC_TRY(mc_storage_view(from, x->storage, x->offset_bytes, layout, &data, &owned));
    mica_status status = mc_storage_new(to, (size_t)bytes, &out->storage);
    if (status == MICA_OK)
        status = mc_storage_write(to, out->storage, 0, data ? (const char *)data + first : NULL,
                                  (size_t)bytes);
    mc_free(owned);
    out->address = status == MICA_OK ? out->storage->address : NULL;
    return status;
}

/* The data of a slot on a device: 0 ours, 1 the fallback. */
static mica_status find_slot(mc_frame *r, uint32_t i, int where, mc_binding *out) {
    slot *s = &r->slots[i];
    if (!s->at[where].storage && s->at[1 - where].storage)
        MC_TRY(copy_across(r->devices[1 - where], &s->at[1 - where], &r->compiled->layouts[i],
                           r->devices[where], &s->at[where]));
    *out = s->at[where];
    out->taken = false;
    return MICA_OK;
}

static void fill_slot(mc_frame *r, uint32_t i, int where, const mc_result *result) {
    r->slots[i].at[where] = (mc_binding){.storage = result->storage,
                                         .address = result->storage->address,
                                         .offset_bytes = result->offset_bytes};
}

static mica_status run_executable(mc_frame *r, const mc_segment *segment, mc_binding *args,
                                  const uint64_t *scalars) {
    int where = segment->device == r->devices[0] ? 0 : 1;
    mc_fence fence = 0;
    for (uint32_t i = 0; i < segment->n_args; i++)
        MC_TRY(find_slot(r, segment->args[i], where, &r->args[i]));
    for (uint32_t i = 0; i < segment->n_scalars; i++)
        r->scalars[i] = scalars[segment->scalars[i]];
    const mc_backend *backend = segment->device->backend;
    mica_status status =
        backend->launch(segment->executable, r->args, r->scalars, r->results, &fence);
    for (uint32_t i = 0; i < segment->n_args; i++)
        if (r->args[i].taken) args[segment->args[i]].taken = true;
    if (status != MICA_OK) return status;
    for (uint32_t i = 0; i < segment->n_results; i++)
        fill_slot(r, segment->results[i], where, &r->results[i]);
    return mc_device_wait(segment->device, fence);
}

/* An operand of control flow; a number gets memory of its own, *number. */
static mica_status find_control_arg(mc_frame *r, const mc_control_arg *arg, const uint64_t *scalars,
                                    mc_storage **number, mc_binding *out) {
    *number = NULL;
    if (arg->kind == MC_ARG_SLOT) return find_slot(r, arg->index, 0, out);
    const uint64_t value = arg->kind == MC_ARG_NUMBER ? arg->value : scalars[arg->index];
    mica_device *device = r->compiled->device;
    MC_TRY(mc_storage_new(device, sizeof value, number));
    *out = (mc_binding){.storage = *number, .address = (*number)->address};
    return mc_storage_write(device, *number, 0, &value, mica_dtype_bytes(arg->dtype));
}

static mica_status run_control(mc_frame *r, const mc_segment *segment, const uint64_t *scalars,
                               const mica_cancel *cancel) {
    mica_status status = MICA_OK;
    uint32_t n = 0;
    for (; n < segment->n_args && status == MICA_OK; n++)
        status =
            find_control_arg(r, &segment->control_args[n], scalars, &r->numbers[n], &r->args[n]);
    if (status == MICA_OK) status = mc_control_run(segment->control, r->args, r->results, cancel);
    while (n > 0)
        mc_storage_release(r->numbers[--n]);
    for (uint32_t i = 0; status == MICA_OK && i < segment->n_results; i++)
        if (segment->results[i] == MC_ABSENT)
            mc_storage_release(r->results[i].storage);
        else
            fill_slot(r, segment->results[i], 0, &r->results[i]);
    return status;
}

static mica_status take_results(mc_frame *r, mc_result *results) {
    for (uint32_t i = 0; i < r->compiled->n_results; i++) {
        mc_binding x;
        MC_TRY(find_slot(r, r->compiled->result_slots[i], r->compiled->stays[i], &x));
        results[i] = (mc_result){mc_storage_retain(x.storage), x.offset_bytes};
    }
    return MICA_OK;
}

static void release_slots(mc_frame *r) {
    for (uint32_t i = 0; i < r->compiled->n_slots; i++) {
        for (int k = 0; k < 2; k++)
            if (!r->slots[i].borrowed[k]) mc_storage_release(r->slots[i].at[k].storage);
    }
}

/* Lays a frame's lists out behind it. */
static mc_frame *new_frame(const mc_compiled *c) {
    uint32_t args = 1, results = 1, scalars = 1;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const mc_segment *s = &c->segments[i];
        if (s->n_args > args) args = s->n_args;
        if (s->n_results > results) results = s->n_results;
        if (s->n_scalars > scalars) scalars = s->n_scalars;
    }
    size_t slot_bytes = c->n_slots * sizeof(slot), arg_bytes = args * sizeof(mc_binding);
    size_t number_bytes = args * sizeof(mc_storage *), result_bytes = results * sizeof(mc_result);
    mc_frame *r = mc_calloc(1, sizeof *r + slot_bytes + arg_bytes + number_bytes + result_bytes +
                                   scalars * sizeof(uint64_t));
    if (!r) return NULL;
    char *next = (char *)(r + 1);
    r->compiled = c;
    r->slots = (slot *)(void *)next;
    r->args = (mc_binding *)(void *)(next += slot_bytes);
    r->numbers = (mc_storage **)(void *)(next += arg_bytes);
    r->results = (mc_result *)(void *)(next += number_bytes);
    r->scalars = (uint64_t *)(void *)(next + result_bytes);
    return r;
}

static mica_status take_frame(mc_compiled *c, mc_frame **frame) {
    pthread_mutex_lock(&c->lock);
    *frame = c->spare;
    if (*frame) c->spare = (*frame)->next;
    pthread_mutex_unlock(&c->lock);
    if (!*frame) *frame = new_frame(c);
    return *frame ? MICA_OK : mc_fail_nomem("running a graph");
}

static void give_back(mc_compiled *c, mc_frame *frame) {
    pthread_mutex_lock(&c->lock);
    frame->next = c->spare;
    c->spare = frame;
    pthread_mutex_unlock(&c->lock);
}

static mica_status open_run(mc_frame *r, const mc_binding *args) {
    const mc_compiled *c = r->compiled;
    memset(r->slots, 0, c->n_slots * sizeof *r->slots);
    for (uint32_t i = 0; i < c->n_params; i++) {
        int where = args[i].storage && args[i].storage->fallback;
        r->slots[i].at[where] = args[i];
        r->slots[i].borrowed[where] = true;
    }
    r->devices[0] = c->device;
    return c->falls_back ? mc_device_fallback(c->device, &r->devices[1]) : MICA_OK;
}

static mica_status run_segments(mc_compiled *c, mc_binding *args, const uint64_t *scalars,
                                mc_result *results, const mica_cancel *cancel) {
    mc_frame *r;
    MC_TRY(take_frame(c, &r));
    mica_status status = open_run(r, args);
    for (uint32_t i = 0; i < c->n_segments && status == MICA_OK; i++)
        status = c->segments[i].control ? run_control(r, &c->segments[i], scalars, cancel)
                                        : run_executable(r, &c->segments[i], args, scalars);
    if (status == MICA_OK) status = take_results(r, results);
    release_slots(r);
    give_back(c, r);
    return status;
}

static void drop_results(const mc_compiled *c, mc_result *results) {
    for (uint32_t i = 0; i < c->n_results; i++) {
        mc_storage_release(results[i].storage);
        results[i] = (mc_result){0};
    }
}

mica_status mc_compiled_launch(const mc_compiled *c, mc_binding *args, const uint64_t *scalars,
                               mc_result *results, const mica_cancel *cancel, mc_fence *fence) {
    mica_status status;
    *fence = 0;
    memset(results, 0, c->n_results * sizeof *results);
    if (!c->whole) {
        /* Only the list of frames changes. */
        status = run_segments((mc_compiled *)(uintptr_t)c, args, scalars, results, cancel);
        atomic_fetch_add_explicit(&c->device->fallback_ops, c->n_fallback, memory_order_relaxed);
    } else {
        status =
            c->device->backend->launch(c->segments[0].executable, args, scalars, results, fence);
    }
    if (status != MICA_OK) drop_results(c, results);
    return status;
}

mica_status mc_compiled_run(const mc_compiled *c, mc_binding *args, const uint64_t *scalars,
                            mc_result *results, const mica_cancel *cancel) {
    mc_fence fence;
    MC_TRY(mc_compiled_launch(c, args, scalars, results, cancel, &fence));
    mica_status status = mc_device_wait(c->device, fence);
    if (status != MICA_OK) drop_results(c, results);
    return status;
}

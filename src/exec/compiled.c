#include "exec/compiled.h"

#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/lower.h"
#include "exec/split.h"

/* ---- making ---- */

static mica_status open_lists(mc_compiled *c, const mc_lowered *lowered) {
    c->n_params = lowered->n_params;
    c->n_scalars = lowered->n_scalars;
    c->n_results = lowered->n_results;
    c->params = mc_arena_alloc(&c->arena, c->n_params * sizeof *c->params);
    c->results = mc_arena_alloc(&c->arena, c->n_results * sizeof *c->results);
    c->result_slots = mc_arena_alloc(&c->arena, c->n_results * sizeof *c->result_slots);
    if (!c->params || !c->results || !c->result_slots) return mc_fail_nomem("compiling a graph");
    memcpy(c->params, lowered->params, c->n_params * sizeof *c->params);
    return MICA_OK;
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
    c->bytes += segment->executable->bytes;
    memcpy(c->results, segment->executable->results, c->n_results * sizeof *c->results);
    return MICA_OK;
}

static mica_status compile_part(mc_compiled *c, mc_part *part, mc_segment *segment) {
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
    c->bytes += segment->executable->bytes;
    for (uint32_t i = 0; i < segment->n_results; i++)
        c->layouts[segment->results[i]] = segment->executable->results[i];
    return MICA_OK;
}

static mica_status compile_parts(mc_compiled *c, const mc_lowered *lowered,
                                 const mc_buffer *fallback) {
    mc_part *parts;
    uint32_t n_parts;
    c->n_fallback = (uint32_t)MC_BUFFER_COUNT(fallback, uint32_t);
    MC_TRY(mc_split(c->device, lowered, MC_BUFFER_AT(fallback, uint32_t), c->n_fallback, &c->arena,
                    &parts, &n_parts, c->result_slots, &c->n_slots));
    c->layouts = mc_arena_calloc(&c->arena, c->n_slots * sizeof *c->layouts);
    c->segments = mc_arena_calloc(&c->arena, n_parts * sizeof *c->segments);
    mica_status status = c->layouts && c->segments ? MICA_OK : mc_fail_nomem("compiling a graph");
    for (uint32_t i = 0; status == MICA_OK && i < mc_scope_count(lowered->graph); i++) {
        const mc_node *node = mc_scope_node(lowered->graph, i);
        if (node->param) c->layouts[node->value] = node->layout;
    }
    for (uint32_t i = 0; status == MICA_OK && i < n_parts; i++)
        status = compile_part(c, &parts[i], &c->segments[i]);
    for (uint32_t i = 0; i < n_parts; i++)
        mc_lowered_free(parts[i].lowered);
    for (uint32_t i = 0; status == MICA_OK && i < c->n_results; i++)
        c->results[i] = c->layouts[c->result_slots[i]];
    return status;
}

mica_status mc_compiled_make(mica_device *device, const mc_trace *trace, mc_compiled **compiled) {
    mc_lowered *lowered = NULL;
    mc_buffer fallback = {0};
    mc_compiled *c = *compiled = mc_calloc(1, sizeof *c);
    if (!c) return mc_fail_nomem("compiling a graph");
    c->device = device;
    c->bytes = sizeof *c;
    mica_status status = mc_lower_ops(device, trace, &lowered, &fallback);
    if (status == MICA_OK) status = open_lists(c, lowered);
    if (status == MICA_OK && fallback.len > 0) {
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
    for (uint32_t i = 0; i < c->n_segments; i++)
        c->segments[i].device->backend->discard(c->segments[i].executable);
    mc_arena_deinit(&c->arena);
    mc_free(c);
}

/* ---- running several segments ---- */

/* Where the data of a slot is: on the device, on the fallback, or on both. */
typedef struct slot {
    mc_binding at[2]; /* storages: references, but for those of parameters on the device */
    bool borrowed;    /* at[0] is the caller's */
} slot;

typedef struct segments_run {
    const mc_compiled *compiled;
    mica_device *devices[2];
    slot *slots;      /* [n_slots] */
    mc_binding *args; /* [most args of a segment] */
    mc_result *results;
    uint64_t *scalars;
} segments_run;

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
static mica_status find_slot(segments_run *r, uint32_t i, int where, mc_binding *out) {
    slot *s = &r->slots[i];
    if (!s->at[where].storage && s->at[1 - where].storage)
        MC_TRY(copy_across(r->devices[1 - where], &s->at[1 - where], &r->compiled->layouts[i],
                           r->devices[where], &s->at[where]));
    *out = s->at[where];
    out->taken = false;
    return MICA_OK;
}

static mica_status run_segment(segments_run *r, const mc_segment *segment, mc_binding *args,
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
        r->slots[segment->results[i]].at[where] =
            (mc_binding){.storage = r->results[i].storage,
                         .address = r->results[i].storage->address,
                         .offset_bytes = r->results[i].offset_bytes};
    return fence ? backend->wait(segment->device->state, fence) : MICA_OK;
}

static mica_status take_results(segments_run *r, mc_result *results) {
    for (uint32_t i = 0; i < r->compiled->n_results; i++) {
        mc_binding x;
        MC_TRY(find_slot(r, r->compiled->result_slots[i], 0, &x));
        results[i] = (mc_result){mc_storage_retain(x.storage), x.offset_bytes};
    }
    return MICA_OK;
}

static void release_slots(segments_run *r) {
    for (uint32_t i = 0; r->slots && i < r->compiled->n_slots; i++) {
        if (!r->slots[i].borrowed) mc_storage_release(r->slots[i].at[0].storage);
        mc_storage_release(r->slots[i].at[1].storage);
    }
}

static mica_status open_run(segments_run *r, mc_arena *arena, const mc_binding *args) {
    const mc_compiled *c = r->compiled;
    uint32_t most_args = 1, most_results = 1, most_scalars = 1;
    for (uint32_t i = 0; i < c->n_segments; i++) {
        const mc_segment *s = &c->segments[i];
        if (s->n_args > most_args) most_args = s->n_args;
        if (s->n_results > most_results) most_results = s->n_results;
        if (s->n_scalars > most_scalars) most_scalars = s->n_scalars;
    }
    r->args = mc_arena_alloc(arena, most_args * sizeof *r->args);
    r->results = mc_arena_alloc(arena, most_results * sizeof *r->results);
    r->scalars = mc_arena_alloc(arena, most_scalars * sizeof *r->scalars);
    r->slots = mc_arena_calloc(arena, c->n_slots * sizeof *r->slots);
    if (!r->args || !r->results || !r->scalars || !r->slots)
        return mc_fail_nomem("running a graph");
    r->devices[0] = c->device;
    MC_TRY(mc_device_fallback(c->device, &r->devices[1]));
    for (uint32_t i = 0; i < c->n_params; i++)
        r->slots[i] = (slot){.at[0] = args[i], .borrowed = true};
    return MICA_OK;
}

static mica_status run_segments(const mc_compiled *c, mc_binding *args, const uint64_t *scalars,
                                mc_result *results) {
    mc_arena arena = {0};
    segments_run r = {.compiled = c};
    mica_status status = open_run(&r, &arena, args);
    for (uint32_t i = 0; i < c->n_segments && status == MICA_OK; i++)
        status = run_segment(&r, &c->segments[i], args, scalars);
    if (status == MICA_OK) status = take_results(&r, results);
    release_slots(&r);
    mc_arena_deinit(&arena);
    return status;
}

static void drop_results(const mc_compiled *c, mc_result *results) {
    for (uint32_t i = 0; i < c->n_results; i++) {
        mc_storage_release(results[i].storage);
        results[i] = (mc_result){0};
    }
}

mica_status mc_compiled_run(const mc_compiled *c, mc_binding *args, const uint64_t *scalars,
                            mc_result *results) {
    mica_status status;
    memset(results, 0, c->n_results * sizeof *results);
    if (c->n_fallback > 0) {
        status = run_segments(c, args, scalars, results);
        atomic_fetch_add_explicit(&c->device->fallback_ops, c->n_fallback, memory_order_relaxed);
    } else {
        const mc_backend *backend = c->device->backend;
        mc_fence fence = 0;
        status = backend->launch(c->segments[0].executable, args, scalars, results, &fence);
        if (status == MICA_OK && fence) status = backend->wait(c->device->state, fence);
    }
    if (status != MICA_OK) drop_results(c, results);
    return status;
}

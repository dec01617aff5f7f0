/* The mlx backend: Apple's MLX, through its C library. It implements the upper layer alone
 * (device/backend.h): MLX plans and runs its own graphs. */
#include "device/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "mlx/emit.h"
#include "mlx/executable.h"

/* A task of a few lines: what it works on. */
typedef struct state_task {
    mc_mlx_task task; /* first */
    mc_mlx_state *state;
    int (*read)(size_t *bytes);
    int (*set)(size_t *before, size_t bytes);
    size_t bytes;
} state_task;

static state_task *task_of(mc_mlx_task *task) {
    return (state_task *)(void *)task;
}

/* ---- opening ---- */

/* The mode that MICA_MLX_MODE names; if it is unset, default. */
static mica_status read_mode(mica_mode *mode) {
    static const char *const names[] = {
        [MICA_MODE_LAZY] = "lazy", [MICA_MODE_EAGER] = "eager", [MICA_MODE_COMPILED] = "compiled"};
    /* $MICA_MLX_MODE: how MLX runs programs: lazy, eager or compiled (by default as the program
     * asks) */
    const char *wanted = getenv("MICA_MLX_MODE");
    *mode = MICA_MODE_DEFAULT;
    if (!wanted || wanted[0] == '\0') return MICA_OK;
    for (int i = MICA_MODE_LAZY; i <= MICA_MODE_COMPILED; i++) {
        if (strcasecmp(wanted, names[i]) != 0) continue;
        *mode = (mica_mode)i;
        return MICA_OK;
    }
    return mc_fail(MICA_EINVAL, "mlx: MICA_MLX_MODE is %s: must be lazy, eager or compiled",
                   wanted);
}

static bool is_there(mlx_device_type type) {
    bool there = false;
    mlx_device device = mc_mlx.device_new_type(type, 0);
    if (mc_mlx.device_is_available(&there, device)) there = false;
    mc_mlx.device_free(device);
    return there;
}

/* Whether MLX has the device that a variant names; *gpu: whether there is a GPU. */
static mica_status find_variant(const char *variant, bool *gpu) {
    bool any = variant[0] == '\0';
    *gpu = is_there(MLX_GPU);
    if (!any && strcmp(variant, "cpu") != 0 && strcmp(variant, "gpu") != 0)
        return mc_fail(MICA_EDEVICE, "mlx: there is no \"mlx:%s\"; there are mlx:gpu and mlx:cpu",
                       variant);
    if (strcmp(variant, "gpu") == 0 && !*gpu)
        return mc_fail(MICA_EDEVICE,
                       "mlx: there is no GPU here, or this MLX was built without it; mlx:cpu runs "
                       "everywhere");
    return MICA_OK;
}

/* Sets the device that a variant names. */
static mica_status choose_device(mc_mlx_state *state, const char *variant) {
    bool gpu;
    MC_TRY(find_variant(variant, &gpu));
    state->on_cpu = !gpu || strcmp(variant, "cpu") == 0;
    state->device = mc_mlx.device_new_type(state->on_cpu ? MLX_CPU : MLX_GPU, 0);
    state->stream = mc_mlx.stream_new();
    if (mc_mlx.set_default_device(state->device) ||
        mc_mlx.get_default_stream(&state->stream, state->device))
        return mc_mlx_fail("opening the device");
    mc_mlx_thread_add_stream(state->device, state->on_cpu);
    return MICA_OK;
}

/* What MLX tells of its device under a key; nothing changes where it does not. */
static void read_text(mlx_device_info info, const char *key, char *text, size_t size) {
    bool has = false, is_text = false;
    const char *found = NULL;
    if (mc_mlx.device_info_has_key(&has, info, key) || !has) return;
    if (mc_mlx.device_info_is_string(&is_text, info, key) || !is_text) return;
    if (mc_mlx.device_info_get_string(&found, info, key)) return;
    snprintf(text, size, "%s", found);
}

static void read_bytes(mlx_device_info info, const char *key, uint64_t *bytes) {
    bool has = false, is_text = true;
    size_t found = 0;
    if (mc_mlx.device_info_has_key(&has, info, key) || !has) return;
    if (mc_mlx.device_info_is_string(&is_text, info, key) || is_text) return;
    if (mc_mlx.device_info_get_size(&found, info, key) == 0) *bytes = found;
}

static void describe(mc_mlx_state *state) {
    char processor[96] = "";
    mlx_device_info info = mc_mlx.device_info_new();
    snprintf(state->name, sizeof state->name, "mlx:%s", state->on_cpu ? "cpu" : "gpu");
    if (mc_mlx.device_info_get(&info, state->device) == 0) {
        read_text(info, "device_name", processor, sizeof processor);
        read_text(info, "architecture", state->architecture, sizeof state->architecture);
        read_bytes(info, "max_buffer_length", &state->max_array_bytes);
        read_bytes(info, "max_recommended_working_set_size", &state->working_set_bytes);
        if (!state->on_cpu) read_bytes(info, "total_memory", &state->memory_bytes); /* CUDA's */
    }
    mc_mlx.device_info_free(info);
    snprintf(state->description, sizeof state->description, "MLX " MICA_MLX_VERSION "%s%s",
             processor[0] != '\0' ? ", " : "", processor);
}

/* On the thread: the devices that limit memory, and MLX's own limit from before there were any. */
static mc_mlx_state *limited_states;
static size_t own_limit;

static void leave_limited(const mc_mlx_state *state) {
    for (mc_mlx_state **at = &limited_states; *at; at = &(*at)->next) {
        if (*at != state) continue;
        *at = state->next;
        return;
    }
}

/* MLX's own limit makes it wait and free, and no more, so it is the least of them; launches look at
 * that of their device. */
static mica_status set_memory_limit(mc_mlx_state *state, uint64_t limit) {
    size_t before = 0, least = SIZE_MAX;
    bool first = !limited_states;
    if (limit == 0 && state->memory_limit == 0) return MICA_OK;
    leave_limited(state);
    state->memory_limit = limit;
    if (limit > 0) {
        state->next = limited_states;
        limited_states = state;
    }
    for (const mc_mlx_state *s = limited_states; s; s = s->next)
        if (s->memory_limit < least) least = (size_t)s->memory_limit;
    if (mc_mlx.set_memory_limit(&before, limited_states ? least : own_limit))
        return mc_mlx_fail("a limit of its memory");
    if (first) own_limit = before;
    return MICA_OK;
}

static mica_status change_memory_limit(mc_mlx_task *task) {
    state_task *t = task_of(task);
    uint64_t was = t->state->memory_limit;
    MC_TRY(set_memory_limit(t->state, t->bytes));
    t->bytes = (size_t)was;
    return MICA_OK;
}

typedef struct open_task {
    mc_mlx_task task; /* first */
    const char *variant;
    const mica_device_options *options;
    mc_mlx_state *state;
} open_task;

static mica_status open_on_thread(mc_mlx_task *task) {
    const open_task *o = (open_task *)(void *)task;
    size_t before;
    bool metal = false;
    MC_TRY(choose_device(o->state, o->variant));
    describe(o->state);
    (void)mc_mlx.metal_is_available(&metal); /* it is not, then */
    o->state->place = o->state->on_cpu ? MC_MLX_ON_CPU : metal ? MC_MLX_ON_METAL : MC_MLX_ON_CUDA;
    o->state->host_reads = o->state->place != MC_MLX_ON_CUDA;
    uint64_t limit = o->options ? o->options->memory_limit_bytes : 0;
    state_task limited = {.state = o->state, .bytes = (size_t)limit};
    MC_TRY(change_memory_limit(&limited.task));
    uint64_t cache = o->options ? o->options->cache_limit_bytes : 0;
    if (cache > 0 && mc_mlx.set_cache_limit(&before, (size_t)cache))
        return mc_mlx_fail("limiting its cache");
    return MICA_OK;
}

static mica_status look_on_thread(mc_mlx_task *task) {
    bool gpu;
    return find_variant(((open_task *)(void *)task)->variant, &gpu);
}

static mica_status device_available(const char *variant) {
    open_task task = {.task.run = look_on_thread, .variant = variant};
    MC_TRY(mc_mlx_thread_start());
    mica_status status = mc_mlx_call_on_thread(&task.task);
    mc_mlx_thread_stop_at_exit(MC_MLX_LOOKED);
    return status;
}

static mica_status free_on_thread(mc_mlx_task *task) {
    mc_mlx_state *state = task_of(task)->state;
    mc_mlx_free_garbage();
    (void)set_memory_limit(state, 0);
    if (state->stream.ctx) mc_mlx.stream_free(state->stream);
    if (state->device.ctx) mc_mlx.device_free(state->device);
    return mc_mlx.clear_cache() ? mc_mlx_fail("clearing its cache") : MICA_OK;
}

static void device_close(void *state) {
    if (!state) return;
    state_task task = {.task.run = free_on_thread, .state = state};
    (void)mc_mlx_call_on_thread(&task.task);
    mc_free(state);
}

static mica_status device_open(const mica_device_options *options, const char *variant,
                               void **out) {
    mica_mode mode;
    *out = NULL;
    MC_TRY(read_mode(&mode));
    mc_mlx_state *state = mc_calloc(1, sizeof *state);
    if (!state) return mc_fail_nomem("the mlx device");
    state->mode = mode;
    mica_status status = mc_mlx_thread_start();
    if (status != MICA_OK) {
        mc_free(state);
        return status;
    }
    open_task task = {
        .task.run = open_on_thread, .variant = variant, .options = options, .state = state};
    status = mc_mlx_call_on_thread(&task.task);
    if (status != MICA_OK) {
        char text[sizeof task.task.error];
        snprintf(text, sizeof text, "%s", mica_last_error());
        device_close(state);
        return mc_fail(status, "%s", text);
    }
    mc_mlx_thread_stop_at_exit(MC_MLX_OPENED);
    *out = state;
    return MICA_OK;
}

static void device_info(const void *state, mica_device_info *info) {
    const mc_mlx_state *s = state;
    *info = (mica_device_info){
        .name = s->name,
        .description = s->description,
        .threads = 1,
        .memory_bytes = s->memory_bytes ? s->memory_bytes : info->memory_bytes,
        .architecture = s->architecture,
        .max_array_bytes = s->max_array_bytes,
        .working_set_bytes = s->working_set_bytes,
        .unified_memory = s->host_reads,
    };
}

/* ---- memory: an address is a cell ---- */

static void *device_alloc(void *state, size_t bytes) {
    (void)state;
    mc_mlx_cell *cell = mc_calloc(1, sizeof *cell);
    if (cell) cell->host = mc_aligned_alloc(64, bytes);
    if (!cell || !cell->host) {
        mc_free(cell);
        return NULL;
    }
    cell->size = bytes;
    return cell;
}

typedef struct cell_task {
    mc_mlx_task task; /* first */
    mc_mlx_cell *cell;
    size_t offset, bytes;
    void *to;
    const void *from;
} cell_task;

static mica_status clear_on_thread(mc_mlx_task *task) {
    mc_mlx_cell_clear(((cell_task *)(void *)task)->cell);
    return MICA_OK;
}

/* Waits, for what the array lies in may be a file that is unmapped next. */
static void device_free(void *state, void *address, size_t bytes) {
    (void)state, (void)bytes;
    cell_task task = {.task.run = clear_on_thread, .cell = address};
    if (task.cell->array.ctx)
        (void)mc_mlx_call_on_thread(&task.task);
    else
        mc_mlx_cell_clear(task.cell);
    mc_free(address);
}

static mica_status device_adopt(void *state, const void *host, size_t bytes, void **address) {
    (void)state;
    mc_mlx_cell *cell = mc_calloc(1, sizeof *cell);
    if (!cell) return mc_fail_nomem("an array over memory of the host");
    cell->host = (void *)(uintptr_t)host; /* only ever read */
    cell->borrowed = true;
    cell->size = cell->used = bytes;
    *address = cell;
    return MICA_OK;
}

static mica_status write_on_thread(mc_mlx_task *task) {
    const cell_task *t = (cell_task *)(void *)task;
    return mc_mlx_cell_write(t->cell, t->offset, t->from, t->bytes);
}

static mica_status read_on_thread(mc_mlx_task *task) {
    const cell_task *t = (cell_task *)(void *)task;
    return mc_mlx_cell_read(t->cell, t->offset, t->to, t->bytes);
}

/* Within the device: by way of the host. */
static mica_status copy_within(void *state, cell_task *to, mc_mlx_cell *from, size_t from_offset) {
    void *bytes = mc_alloc(to->bytes);
    if (!bytes) return mc_fail_nomem("a copy on the mlx device");
    cell_task read = {.task.run = read_on_thread,
                      .cell = from,
                      .offset = from_offset,
                      .bytes = to->bytes,
                      .to = bytes};
    to->from = bytes;
    (void)state;
    mica_status status = mc_mlx_call_on_thread(&read.task);
    if (status == MICA_OK) status = mc_mlx_call_on_thread(&to->task);
    mc_free(bytes);
    return status;
}

static mica_status device_copy(void *state, mc_direction direction, void *to, size_t to_offset,
                               const void *from, size_t from_offset, size_t bytes) {
    if (direction == MC_TO_HOST) {
        cell_task task = {.task.run = read_on_thread,
                          .cell = (mc_mlx_cell *)(uintptr_t)from,
                          .offset = from_offset,
                          .bytes = bytes,
                          .to = (char *)to + to_offset};
        return mc_mlx_call_on_thread(&task.task);
    }
    cell_task task = {.task.run = write_on_thread, .cell = to, .offset = to_offset, .bytes = bytes};
    if (direction == MC_WITHIN_DEVICE)
        return copy_within(state, &task, (mc_mlx_cell *)(uintptr_t)from, from_offset);
    task.from = (const char *)from + from_offset;
    return mc_mlx_call_on_thread(&task.task);
}

/* ---- accounts ---- */

static mica_status count(mc_mlx_task *task) {
    state_task *t = task_of(task);
    return t->read(&t->bytes) ? mc_mlx_fail("its memory") : MICA_OK;
}

static uint64_t ask(int (*read)(size_t *bytes)) {
    state_task task = {.task.run = count, .read = read};
    return mc_mlx_call_on_thread(&task.task) == MICA_OK ? task.bytes : 0;
}

/* A GPU's memory is free when it gets there: waits for that. */
static mica_status count_active(mc_mlx_task *task) {
    if (mc_mlx.synchronize(task_of(task)->state->stream)) return mc_mlx_fail("waiting for it");
    return count(task);
}

static uint64_t device_active(void *state) {
    state_task task = {.task.run = count_active, .state = state, .read = mc_mlx.get_active_memory};
    return mc_mlx_call_on_thread(&task.task) == MICA_OK ? task.bytes : 0;
}

/* MLX's peak begins again at 0, and arrays that are live already do not count in it. So this is
 * what was active then, and the peak is no less. Of the process, as MLX's is; read and written by
 * MLX's thread alone. */
static size_t active_at_reset;

static int read_peak(size_t *bytes) {
    if (mc_mlx.get_peak_memory(bytes)) return 1;
    if (*bytes < active_at_reset) *bytes = active_at_reset;
    return 0;
}

static uint64_t device_peak(void *state) {
    (void)state;
    return ask(read_peak);
}

static uint64_t device_cached(void *state) {
    (void)state;
    return ask(mc_mlx.get_cache_memory);
}

static int reset_peak(size_t *bytes) {
    if (mc_mlx.get_active_memory(bytes) || mc_mlx.reset_peak_memory()) return 1;
    active_at_reset = *bytes;
    return 0;
}

/* When what was launched is over: it would count in the new peak. */
static void device_reset_peak(void *state) {
    state_task task = {.task.run = count_active, .state = state, .read = reset_peak};
    (void)mc_mlx_call_on_thread(&task.task);
}

static int clear_cache(size_t *bytes) {
    (void)bytes;
    return mc_mlx.clear_cache();
}

static void device_clear_cache(void *state) {
    (void)state;
    (void)ask(clear_cache);
}

static mica_status change(mc_mlx_task *task) {
    state_task *t = task_of(task);
    size_t before = 0;
    if (t->set(&before, t->bytes)) return mc_mlx_fail("a limit of its memory");
    t->bytes = before;
    return MICA_OK;
}

static uint64_t set_limit(int (*set)(size_t *before, size_t bytes), uint64_t bytes) {
    state_task task = {.task.run = change, .set = set, .bytes = (size_t)bytes};
    return mc_mlx_call_on_thread(&task.task) == MICA_OK ? task.bytes : 0;
}

static uint64_t device_set_cache_limit(void *state, uint64_t bytes) {
    (void)state;
    return set_limit(mc_mlx.set_cache_limit, bytes);
}

static uint64_t device_set_wired_limit(void *state, uint64_t bytes) {
    (void)state;
    return set_limit(mc_mlx.set_wired_limit, bytes);
}

static uint64_t device_set_memory_limit(void *state, uint64_t bytes) {
    state_task task = {.task.run = change_memory_limit, .state = state, .bytes = (size_t)bytes};
    return mc_mlx_call_on_thread(&task.task) == MICA_OK ? task.bytes : 0;
}

static const mc_memory_ops memory = {
    .active = device_active,
    .peak = device_peak,
    .cached = device_cached,
    .reset_peak = device_reset_peak,
    .clear_cache = device_clear_cache,
    .set_cache_limit = device_set_cache_limit,
    .set_memory_limit = device_set_memory_limit,
    .set_wired_limit = device_set_wired_limit,
};

/* ---- graphs ---- */

static mc_support device_supports(const void *state, mc_op op, const void *attr,
                                  const mc_layout *const *in, int n_in, const mc_layout *out,
                                  int n_out) {
    (void)n_out;
    mc_mlx_place place = ((const mc_mlx_state *)state)->place;
    return (mc_support){.yes = mc_mlx_supports(place, op, attr, in, n_in, out)};
}

const mc_backend mc_backend_mlx = {
    .name = "mlx",
    .late = true,
    .moves_donated = true,
    .available = device_available,
    .open = device_open,
    .close = device_close,
    .info = device_info,
    .alloc = device_alloc,
    .free = device_free,
    .memory = &memory,
    .adopt = device_adopt,
    .copy = device_copy,
    .supports = device_supports,
    .compile = mc_mlx_compile,
    .discard = mc_mlx_discard,
    .launch = mc_mlx_launch,
    .wait = mc_mlx_wait_fence,
};

/* Programs in files: the graph's file (graph/file.h), with constants inside or by their names. */
#include "base/alloc.h"
#include "base/filemap.h"
#include "base/map.h"
#include "base/options.h"
#include "base/save.h"
#include "device/device.h"
#include "device/mapped.h"
#include "exec/bind.h"
#include "exec/program.h"
#include "graph/file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef mica_program_file_options options;

enum { FILE_FROM = 64 << 10 }; /* bytes of constants that stay in their file */

/* ---- names ---- */

/* errors  MICA_EINVAL a name is NULL, or there twice */
static mica_status check_constants(const options *o) {
    mc_map seen = {0};
    uint64_t first;
    if (!o->constants && o->n_constants > 0)
        return mc_fail(MICA_EINVAL, "constants is NULL, and there are %zu", o->n_constants);
    bool room = mc_map_reserve(&seen, o->n_constants);
    mica_status status = room ? MICA_OK : mc_fail_nomem("the names of a file");
    for (size_t i = 0; i < o->n_constants && status == MICA_OK; i++) {
        const char *name = o->constants[i].name;
        if (!name)
            status = mc_fail(MICA_EINVAL, "constant %zu has no name", i);
        else if (mc_map_find(&seen, mc_str_of(name), &first))
            status = mc_fail(MICA_EINVAL, "constants %zu and %zu have the same name, %s",
                             (size_t)first, i, name);
        else if (!mc_map_put(&seen, mc_str_of(name), i))
            status = mc_fail_nomem("the names of a file");
    }
    mc_map_deinit(&seen);
    return status;
}

/* ---- saving ---- */

typedef struct saver {
    const options *options;
    mica_scope *scratch; /* where constants are read: programs do not change */
} saver;

/* Whether both are the same elements in the same memory. */
static bool is_same(const mc_node *a, const mc_node *b) {
    const mc_layout *x = &a->layout, *y = &b->layout;
    return a->storage && a->storage == b->storage && a->offset_bytes == b->offset_bytes &&
           x->dtype == y->dtype && mc_layout_same_shape(x, y) &&
           memcmp(x->strides, y->strides, (size_t)x->ndim * sizeof *x->strides) == 0;
}

static const char *name_of(void *context, mica_array constant) {
    const saver *w = context;
    for (size_t i = 0; i < w->options->n_constants; i++) {
        const mica_named_array *named = &w->options->constants[i];
        if (mica_valid(named->array) && is_same(mc_node_of(named->array), mc_node_of(constant)))
            return named->name;
    }
    return NULL;
}

static mica_status read_constant(void *context, mica_array constant, void *data, size_t bytes) {
    const saver *w = context;
    mica_array x = mc_copy_leaf(w->scratch, mc_node_of(constant));
    MC_TRY(mica_scope_status(w->scratch));
    return mica_read(x, data, bytes);
}

static mica_status encode(const mica_program *p, const options *o, mc_buffer *file) {
    mc_arena arena = {0};
    mc_graph_ports ports;
    saver w = {.options = o};
    const mc_graph_saver s = {.name = name_of, .read = read_constant, .context = &w};
    mica_status status = check_constants(o);
    if (status == MICA_OK) status = mc_program_ports(p, &arena, &ports);
    if (status == MICA_OK) status = mica_scope_open(p->device, &w.scratch);
    if (status == MICA_OK) status = mc_graph_write(p->graph, &ports, &s, file);
    mica_scope_close(&w.scratch);
    mc_arena_deinit(&arena);
    return status;
}

mica_status mica_program_encode(const mica_program *program, const options *given, void **data,
                                size_t *bytes) {
    options o;
    mc_buffer file = {0};
    if (!program || !data || !bytes) return mc_fail(MICA_EINVAL, "program_encode: NULL");
    *data = NULL;
    *bytes = 0;
    MC_TRY(MC_OPTIONS_COPY(mica_program_file_options, n_constants, &o, given));
    mica_status status = encode(program, &o, &file);
    if (status != MICA_OK) {
        mc_buffer_deinit(&file);
        return mc_fail_context(status, "program_encode");
    }
    *bytes = file.len;
    *data = file.data;
    return MICA_OK;
}

mica_status mica_program_save(const mica_program *program, const char *path, const options *given) {
    options o;
    mc_buffer file = {0};
    mc_save save;
    if (!program || !path) return mc_fail(MICA_EINVAL, "program_save: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_program_file_options, n_constants, &o, given));
    mica_status status = encode(program, &o, &file);
    if (status != MICA_OK) status = mc_fail_context(status, "%s", path);
    if (status == MICA_OK) status = mc_save_open(&save, path);
    if (status == MICA_OK) {
        if (fwrite(file.data, 1, file.len, save.file) != file.len)
            status = mc_fail_errno(errno, "%s", path);
        status = mc_save_close(&save, status);
    }
    mc_buffer_deinit(&file);
    return status;
}

/* ---- loading ---- */

/* Evaluates the constants that are given. */
static mica_status check_values(mica_device *device, const options *o) {
    for (size_t i = 0; i < o->n_constants; i++) {
        mica_array x = o->constants[i].array;
        mica_status status = mc_check_valid(x, "the value");
        if (status == MICA_OK && mica_scope_device(x.scope) != device)
            status = mc_fail(MICA_EINVAL, "the value is of another device");
        const mc_node *node = mc_node_of(x);
        if (status == MICA_OK && (node->state != MC_READY || node->param))
            status = mica_eval(x.scope, x);
        if (status != MICA_OK) return mc_fail_context(status, "constant %s", o->constants[i].name);
    }
    return MICA_OK;
}

/* A file that constants may lie in. */
typedef struct mapped_file {
    mc_filemap map;
    atomic_uint count;
} mapped_file;

static void release_file(void *owner) {
    mapped_file *file = owner;
    if (atomic_fetch_sub_explicit(&file->count, 1u, memory_order_acq_rel) != 1u) return;
    mc_filemap_close(&file->map);
    mc_free(file);
}

/* Where constants come from. */
typedef struct source {
    const options *options;
    mapped_file *file; /* NULL: the program is in the caller's memory */
} source;

static mica_array find_constant(void *context, mica_scope *into, const char *name,
                                const mc_layout *want) {
    const options *o = ((const source *)context)->options;
    size_t i = 0;
    while (i < o->n_constants && strcmp(o->constants[i].name, name) != 0)
        i++;
    if (i == o->n_constants)
        return mc_scope_fail(into, MICA_ENOENT,
                             "the constant %s is not in the file, and not among constants", name);
    const mc_node *node = mc_node_of(o->constants[i].array);
    const mc_layout *l = &node->layout;
    if (l->dtype != want->dtype || !mc_layout_same_shape(l, want)) {
        char given[MC_LAYOUT_TEXT], wanted[MC_LAYOUT_TEXT];
        return mc_scope_fail(into, MICA_EFORMAT, "the constant %s is %s, and the program wants %s",
                             name, mc_layout_text(l, given), mc_layout_text(want, wanted));
    }
    return mc_copy_leaf(into, node);
}

/* Weights of bytes stay in the file: products put them in an order of their own when a program is
 * compiled, and the file's pages need not be in memory then. Others are read as they lie, which is
 * faster in memory of large pages. */
static bool stays_in_file(const mapped_file *file, const mc_layout *l) {
    return file && !file->map.in_memory && (l->dtype == MICA_I8 || l->dtype == MICA_U8) &&
           mc_layout_bytes(l) >= FILE_FROM;
}

/* What was copied leaves memory, so that it is not there twice. */
static mica_array find_inside(void *context, mica_scope *into, const mc_layout *l,
                              const void *data) {
    const source *from = context;
    mica_array x;
    if (stays_in_file(from->file, l)) {
        atomic_fetch_add_explicit(&from->file->count, 1u, memory_order_relaxed);
        x = mica_from_host(into, data, l->dtype, l->shape, l->ndim, release_file, from->file);
        if (mica_valid(x)) mc_storage_set_file(mc_node_of(x)->storage, &from->file->map);
    } else {
        x = mica_from_data(into, data, l->dtype, l->shape, l->ndim);
    }
    if (from->file) mc_filemap_release(&from->file->map, data, (size_t)mc_layout_bytes(l));
    return x;
}

/* The program of a graph that was read into s. */
static mica_status build(mica_scope *s, const mc_graph_ports *ports, mc_arena *arena,
                         mica_program **program) {
    mica_param *params = mc_arena_alloc(arena, ports->n_params * sizeof *params);
    mica_array *results = mc_arena_alloc(arena, ports->n_results * sizeof *results);
    const char **result_names = mc_arena_alloc(arena, ports->n_results * sizeof *result_names);
    if (!params || !results || !result_names) return mc_fail_nomem("a program");
    for (size_t i = 0; i < ports->n_params; i++) {
        const mc_graph_port *port = &ports->params[i];
        params[i] = (mica_param){port->name, {s, port->node}, port->donate};
    }
    for (size_t i = 0; i < ports->n_results; i++) {
        results[i] = (mica_array){s, ports->results[i]};
        const char *name = ports->result_names[i];
        result_names[i] = *name ? name : NULL;
    }
    const mica_program_options named = {.result_names = result_names};
    mica_status status =
        mica_program_build(s, params, ports->n_params, results, ports->n_results, &named, program);
    return status == MICA_EINVAL ? MICA_EFORMAT : status; /* what the file says, such as names */
}

static mica_status decode(mica_device *device, const void *data, size_t bytes, const char *name,
                          source *from, mica_program **program) {
    const options *o = from->options;
    mc_arena arena = {0};
    mc_graph_ports ports;
    mica_scope *s = NULL;
    const mc_graph_loader loader = {.named = find_constant, .inside = find_inside, .context = from};
    mica_status status = check_constants(o);
    if (status == MICA_OK) status = check_values(device, o);
    if (status == MICA_OK) status = mica_scope_open(device, &s);
    if (status != MICA_OK) status = mc_fail_context(status, "%s", name);
    if (status == MICA_OK) status = mc_graph_read(data, bytes, name, s, &loader, &arena, &ports);
    if (status == MICA_OK) {
        status = build(s, &ports, &arena, program);
        if (status != MICA_OK) status = mc_fail_context(status, "%s", name);
    }
    mica_scope_close(&s);
    mc_arena_deinit(&arena);
    return status;
}

mica_status mica_program_decode(mica_device *device, const void *data, size_t bytes,
                                const options *given, mica_program **program) {
    options o;
    if (!program) return mc_fail(MICA_EINVAL, "program_decode: program is NULL");
    *program = NULL;
    if (!device || (!data && bytes > 0)) return mc_fail(MICA_EINVAL, "program_decode: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_program_file_options, n_constants, &o, given));
    source from = {.options = &o};
    return decode(device, data, bytes, "program_decode", &from, program);
}

mica_status mica_program_load(mica_device *device, const char *path, const options *given,
                              mica_program **program) {
    options o;
    if (!program) return mc_fail(MICA_EINVAL, "program_load: program is NULL");
    *program = NULL;
    if (!device || !path) return mc_fail(MICA_EINVAL, "program_load: NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_program_file_options, n_constants, &o, given));
    mapped_file *file = mc_calloc(1, sizeof *file);
    if (!file) return mc_fail_nomem("a program");
    atomic_init(&file->count, 1u);
    source from = {.options = &o, .file = file};
    mica_status status = mc_filemap_open(path, MC_FILE_PROGRAM, &file->map);
    if (status == MICA_OK)
        status = decode(device, file->map.data, file->map.size, path, &from, program);
    release_file(file);
    return status;
}

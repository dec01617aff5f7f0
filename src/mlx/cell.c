#include "mlx/cell.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"

mlx_dtype mc_mlx_dtype(mica_dtype dtype) {
    static const mlx_dtype dtypes[MICA_DTYPE_COUNT] = {
        [MICA_BOOL] = MLX_BOOL,     [MICA_U8] = MLX_UINT8,      [MICA_U16] = MLX_UINT16,
        [MICA_U32] = MLX_UINT32,    [MICA_U64] = MLX_UINT64,    [MICA_I8] = MLX_INT8,
        [MICA_I16] = MLX_INT16,     [MICA_I32] = MLX_INT32,     [MICA_I64] = MLX_INT64,
        [MICA_F16] = MLX_FLOAT16,   [MICA_BF16] = MLX_BFLOAT16, [MICA_F32] = MLX_FLOAT32,
        [MICA_C64] = MLX_COMPLEX64, [MICA_F64] = MLX_INT64,
    };
    return dtypes[dtype];
}

const void *mc_mlx_host_pointer(mlx_array array) {
    return mc_mlx.array_data_uint8(array); /* whatever its dtype is */
}

void mc_mlx_cell_clear(mc_mlx_cell *cell) {
    if (cell->array.ctx) mc_mlx.array_free(cell->array);
    if (cell->cast.ctx) mc_mlx.array_free(cell->cast);
    cell->array = cell->cast = (mlx_array){0};
    if (!cell->borrowed) mc_free(cell->host);
    cell->host = NULL;
}

/* ---- bytes ---- */

static const char *bytes_of(const mc_mlx_cell *cell) {
    return cell->array.ctx ? mc_mlx_host_pointer(cell->array) : cell->host;
}

/* Bytes that an array does not show can be read and written while there is none. */
static size_t room_of(const mc_mlx_cell *cell) {
    return cell->array.ctx ? cell->used : cell->size;
}

static mica_status check_inside(size_t room, int64_t offset, size_t bytes) {
    if (offset >= 0 && (size_t)offset <= room && bytes <= room - (size_t)offset) return MICA_OK;
    return mc_fail(MICA_EINTERNAL, "mlx: %zu bytes at %lld are outside of an array of %zu", bytes,
                   (long long)offset, room);
}

/* What MLX's CUDA allocates at once, in memory that the host sees from the beginning. */
enum { UNMOVED_BYTES = 8 };

/* Waits for the launch that computes the cell's array. On CUDA, its first read by the host moves an
 * array into memory that both see and frees where it was, under kernels of later launches that are
 * queued with the old address: these have to end before. */
static mica_status wait_for(const mc_mlx_cell *cell) {
    if (!cell->array.ctx) return MICA_OK;
    bool moves = cell->mover.ctx && cell->used > UNMOVED_BYTES;
    int failed = mc_mlx.array_eval(cell->array);
    if (!failed && moves) failed = mc_mlx.synchronize(cell->mover);
    return failed ? mc_mlx_fail("computing an array") : MICA_OK;
}

mica_status mc_mlx_cell_write(mc_mlx_cell *cell, size_t offset, const void *from, size_t bytes) {
    MC_TRY(check_inside(cell->size, (int64_t)offset, bytes));
    if (!cell->host) { /* it was computed with: the array becomes bytes again */
        MC_TRY(wait_for(cell));
        char *host = mc_aligned_alloc(64, cell->size);
        if (!host) return mc_fail_nomem("writing to an array of MLX");
        if (cell->array.ctx) memcpy(host, bytes_of(cell), cell->used);
        mc_mlx_cell_clear(cell);
        cell->host = host;
    }
    memcpy((char *)cell->host + offset, from, bytes);
    if (offset + bytes > cell->used) cell->used = offset + bytes;
    return MICA_OK;
}

mica_status mc_mlx_cell_read(const mc_mlx_cell *cell, size_t offset, void *to, size_t bytes) {
    MC_TRY(wait_for(cell));
    const char *from = bytes_of(cell);
    if (!from) return mc_fail(MICA_EINTERNAL, "mlx: reading an array that was given away");
    MC_TRY(check_inside(room_of(cell), (int64_t)offset, bytes));
    memcpy(to, from + offset, bytes);
    return MICA_OK;
}

/* ---- arrays ---- */

static void keep_bytes(void *host) {
    (void)host; /* they belong to somebody else */
}

/* Makes the array of the bytes: of the view's dtype and shape where it shows all of them, else a
 * flat one. */
static mica_status make_array(mc_mlx_cell *cell, const mc_layout *layout, mlx_stream stream) {
    int shape[MICA_MAX_NDIM] = {0}, ndim = layout->ndim;
    bool is_bool = layout->dtype == MICA_BOOL; /* any byte but 0 is true: made of bytes */
    mlx_dtype dtype = is_bool ? MLX_UINT8 : mc_mlx_dtype(layout->dtype);
    if (mc_layout_is_dense(layout) && (size_t)mc_layout_bytes(layout) == cell->used) {
        for (int k = 0; k < ndim; k++)
            shape[k] = (int)layout->shape[k];
    } else {
        bool bytes = cell->used <= INT_MAX;
        ndim = 1;
        shape[0] = (int)(bytes ? cell->used : cell->used / mica_dtype_bytes(layout->dtype));
        if (bytes) dtype = MLX_UINT8;
    }
    cell->array = mc_mlx.array_new_data_managed(cell->host, shape, ndim, dtype,
                                                cell->borrowed ? keep_bytes : mc_free);
    if (!cell->borrowed) cell->host = NULL; /* the array's, also where it could not be made */
    int failed = !cell->array.ctx;
    if (!failed && is_bool && ndim == layout->ndim)
        failed = mc_mlx.astype(&cell->array, cell->array, MLX_BOOL, stream) ||
                 mc_mlx.array_eval(cell->array);
    return !failed ? MICA_OK : mc_mlx_fail("an array over memory of the host");
}

/* Whether a view is an array but for the dtype. */
static bool has_shape(mlx_array array, const mc_layout *layout, int64_t offset_bytes) {
    if (offset_bytes != 0 || !mc_layout_is_dense(layout) ||
        (int)mc_mlx.array_ndim(array) != layout->ndim)
        return false;
    const int *shape = mc_mlx.array_shape(array);
    for (int k = 0; k < layout->ndim; k++)
        if (shape[k] != layout->shape[k]) return false;
    return true;
}

static bool shows_all(mlx_array array, const mc_layout *layout, int64_t offset_bytes) {
    return mc_mlx.array_dtype(array) == mc_mlx_dtype(layout->dtype) &&
           has_shape(array, layout, offset_bytes);
}

/* A flat array's elements read as another dtype; what is left at its end is cut off. */
static int read_as(mlx_array *flat, mica_dtype dtype, mlx_stream stream) {
    int from = (int)(mc_mlx.array_nbytes(*flat) / mc_mlx.array_size(*flat));
    int to = (int)mica_dtype_bytes(dtype), n = (int)mc_mlx.array_size(*flat);
    int start = 0, stop = to > from ? n - n % (to / from) : n, step = 1;
    int failed = 0;
    if (stop < n) failed = mc_mlx.slice(flat, *flat, &start, 1, &stop, 1, &step, 1, stream);
    if (failed || dtype != MICA_BOOL)
        return failed ? failed : mc_mlx.view(flat, *flat, mc_mlx_dtype(dtype), stream);
    return mc_mlx.view(flat, *flat, MLX_UINT8, stream) ||
           mc_mlx.astype(flat, *flat, MLX_BOOL, stream);
}

mica_status mc_mlx_cell_view(mc_mlx_cell *cell, const mc_layout *layout, int64_t offset_bytes,
                             mlx_stream stream, mlx_array *array) {
    int shape[MICA_MAX_NDIM] = {0}, flat = -1;
    for (int k = 0; k < layout->ndim; k++)
        shape[k] = (int)layout->shape[k];
    int failed;
    if (mc_layout_size(layout) == 0) {
        failed =
            mc_mlx.zeros(array, shape, (size_t)layout->ndim, mc_mlx_dtype(layout->dtype), stream);
        return failed ? mc_mlx_fail("an empty array") : MICA_OK;
    }
    int64_t first, bytes;
    mc_layout_span(layout, &first, &bytes);
    MC_TRY(check_inside(room_of(cell), offset_bytes + first, (size_t)bytes));
    if (!cell->array.ctx) {
        size_t end = (size_t)(offset_bytes + first + bytes);
        if (!cell->host) return mc_fail(MICA_EINTERNAL, "mlx: an array that was given away");
        if (end > cell->used) cell->used = end; /* nobody wrote the rest */
        MC_TRY(make_array(cell, layout, stream));
    }
    if (shows_all(cell->array, layout, offset_bytes)) {
        failed = mc_mlx.array_set(array, cell->array);
        return failed ? mc_mlx_fail("an argument") : MICA_OK;
    }
    size_t offset = (size_t)offset_bytes / mica_dtype_bytes(layout->dtype);
    failed = mc_mlx.reshape(array, cell->array, &flat, 1, stream) ||
             read_as(array, layout->dtype, stream) ||
             mc_mlx.as_strided(array, *array, shape, (size_t)layout->ndim, layout->strides,
                               (size_t)layout->ndim, offset, stream);
    return failed ? mc_mlx_fail("a view of an argument") : MICA_OK;
}

/* Other functions of MLX that copy share the memory where they can. */
int mc_mlx_copy(mlx_array *array, mlx_stream stream) {
    const int first = 0, axis = 0, *shape = mc_mlx.array_shape(*array);
    size_t ndim = mc_mlx.array_ndim(*array);
    if (ndim == 0) return 0; /* no kernel reads more than it */
    mlx_array start = mc_mlx.array_new_data(&first, (const int[]){1}, 1, MLX_INT32), copy = {0};
    int failed =
        !start.ctx || mc_mlx.slice_dynamic(&copy, *array, start, &axis, 1, shape, ndim, stream);
    if (!failed) failed = mc_mlx.array_set(array, copy);
    mc_mlx.array_free(copy);
    mc_mlx.array_free(start);
    return failed;
}

/* ---- casts ---- */

/* Of the weights of a norm, say; those of a large array would take as much memory as it does. */
enum { MAX_CAST_BYTES = 1 << 18 };

void mc_mlx_cell_find_cast(const mc_mlx_cell *cell, const mc_layout *layout, int64_t offset_bytes,
                           mlx_array *array) {
    if (cell->cast.ctx && has_shape(cell->cast, layout, offset_bytes) &&
        mc_mlx.array_set(array, cell->cast))
        *array = (mlx_array){0};
}

void mc_mlx_cell_keep_cast(mc_mlx_cell *cell, const mc_layout *layout, int64_t offset_bytes,
                           mlx_array array) {
    bool whole = cell->array.ctx && shows_all(cell->array, layout, offset_bytes);
    if (whole && !cell->cast.ctx && cell->used <= MAX_CAST_BYTES)
        cell->cast = array;
    else
        mc_mlx.array_free(array);
}

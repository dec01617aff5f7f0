/* A chain of what heads go through on their way to attention: kern/heads.cu. */
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/kern/heads.h"

enum { WARPS = 8, THREADS = WARPS * MC_CUDA_HEAD_LANES }; /* as kern/heads.cu has them */

/* The bytes that an operand lies in. */
typedef struct range {
    uintptr_t from, to;
} range;

static range range_of(const mc_operand *x) {
    const mc_layout *l = x->layout;
    if (!l || !x->data) return (range){0, 0};
    int64_t low = 0, high = 1, item = (int64_t)mica_dtype_bytes(l->dtype);
    for (int k = 0; k < l->ndim; k++) {
        int64_t step = (l->shape[k] - 1) * l->strides[k];
        *(step < 0 ? &low : &high) += step;
    }
    return (range){(uintptr_t)x->data + (uintptr_t)(low * item),
                   (uintptr_t)x->data + (uintptr_t)(high * item)};
}

bool mc_cuda_overlap(const mc_operand *a, const mc_operand *b) {
    range x = range_of(a), y = range_of(b);
    return x.from < y.to && y.from < x.to;
}

/* A track as it is put together: its calls, in order. */
typedef struct track {
    const mc_call *calls[MC_MAX_CHAIN];
    int n;
    int step; /* of the last call */
} track;

enum { NORM = 1, ROPE, CONVERT, COPY };

static int step_of(const mc_call *call) {
    bool floats = call->out.layout->dtype == MICA_BF16 || call->out.layout->dtype == MICA_F16 ||
                  call->out.layout->dtype == MICA_F32;
    switch (call->op) {
    case MC_OP_RMS_NORM:
        return NORM;
    case MC_OP_ROPE:
        return ROPE;
    case MC_OP_ASTYPE:
        return floats ? CONVERT : 0;
    case MC_OP_SLICE_UPDATE_AT:
        return floats ? COPY : 0;
    default:
        return 0;
    }
}

static const mc_operand *rows_of(const mc_call *call) {
    return &call->in[call->op == MC_OP_SLICE_UPDATE_AT];
}

/* Rows [n, d] whose numbers follow each other, along one axis: their stride, -1: they are not. */
static int64_t stride_of(const mc_layout *l, int64_t *n) {
    int64_t stride = 0;
    *n = 1;
    if (l->ndim < 2 || (l->shape[l->ndim - 1] > 1 && l->strides[l->ndim - 1] != 1)) return -1;
    for (int k = 0; k < l->ndim - 1; k++) {
        if (l->shape[k] == 1) continue;
        if (*n != 1) return -1;
        *n = l->shape[k];
        stride = l->strides[k];
    }
    return stride;
}

static bool has_rows(const mc_operand *x, mica_dtype dtype, int64_t n, int64_t d) {
    int64_t own = 0, stride = x->data ? stride_of(x->layout, &own) : -1;
    return x->data && x->layout->dtype == dtype && stride >= 0 && own == n &&
           x->layout->shape[x->layout->ndim - 1] == d;
}

static bool is_dense_rows(const mc_operand *x, mica_dtype dtype, int64_t n, int64_t d) {
    return has_rows(x, dtype, n, d) && mc_layout_is_dense(x->layout);
}

static bool fits_rope(const mc_call *call, int64_t d) {
    const mc_attr_rope *attr = call->attr;
    const mc_layout *x = call->in[0].layout;
    int64_t half = attr->dims / 2;
    return !attr->traditional && x->shape[0] == 1 && x->shape[x->ndim - 2] == 1 &&
           attr->dims <= d && attr->dims % 2 == 0 &&
           (half == MC_CUDA_HEAD_LANES || half == 2 * MC_CUDA_HEAD_LANES ||
            half == 4 * MC_CUDA_HEAD_LANES);
}

/* Whether the kernel does what call does, behind the track's other calls. */
static bool fits(const mc_call *call, int64_t n, int64_t d) {
    const mc_operand *x = rows_of(call);
    bool ends = call->op == MC_OP_SLICE_UPDATE_AT;
    if (!has_rows(x, ends ? call->out.layout->dtype : MICA_F32, n, d)) return false;
    if (ends) return call->out.layout->strides[call->out.layout->ndim - 1] == 1;
    if (call->op == MC_OP_ROPE && !fits_rope(call, d)) return false;
    mica_dtype dtype = call->op == MC_OP_ASTYPE ? call->out.layout->dtype : MICA_F32;
    return is_dense_rows(&call->out, dtype, n, d);
}

/* Puts a call behind that whose result it takes, or begins a track. */
static bool place_call(const mc_call *call, track *tracks, int *n_tracks) {
    const mc_operand *x = rows_of(call);
    int step = step_of(call);
    if (!step || !x->data) return false;
    track *t = NULL;
    for (int i = 0; i < *n_tracks; i++)
        if (tracks[i].calls[tracks[i].n - 1]->out.data == x->data) t = &tracks[i];
    if (!t) {
        if (*n_tracks == MC_CUDA_TRACKS || x->layout->dtype != MICA_F32) return false;
        t = &tracks[(*n_tracks)++];
        *t = (track){.n = 0};
    }
    if (step <= t->step) return false;
    t->step = step;
    t->calls[t->n++] = call;
    return true;
}

/* Whether element i of both lies at the same place: what a lane of the kernel writes, it has
 * read. */
static bool is_same_place(const mc_operand *x, const mc_operand *y) {
    return x->data == y->data && x->layout->dtype == MICA_F32 && y->layout->dtype == MICA_F32 &&
           mc_layout_is_dense(x->layout) && mc_layout_is_dense(y->layout);
}

/* Rows are computed at once: nothing is written where another one may still be read, or was
 * written. */
static bool is_apart(const track *tracks, int n_tracks) {
    const mc_operand *from[MC_CUDA_TRACKS * COPY], *to[MC_CUDA_TRACKS * COPY];
    int n = 0, track_of[MC_CUDA_TRACKS * COPY];
    for (int i = 0; i < n_tracks; i++)
        for (int k = 0; k < tracks[i].n; k++) {
            track_of[n] = i;
            from[n] = rows_of(tracks[i].calls[k]);
            to[n++] = &tracks[i].calls[k]->out;
        }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            bool own = track_of[i] == track_of[k];
            bool given = own && k == i + 1; /* what the call before it wrote, which is not read */
            if (!given && !(own && is_same_place(from[k], to[i])) &&
                mc_cuda_overlap(from[k], to[i]))
                return false;
            if (k != i && !(own && is_same_place(to[k], to[i])) && mc_cuda_overlap(to[k], to[i]))
                return false;
        }
    return true;
}

/* The stride of rows [d] in the result of a copy whose shape has one axis of them at most. */
static int64_t row_stride(const mc_cuda_copy *copy, int64_t d) {
    for (int k = 0; k < copy->ndim - 1; k++)
        if (copy->shape[k] > 1) return copy->out.strides[k];
    return d; /* they follow each other, or there is one */
}

static void set_track(const track *t, mc_cuda_track *to) {
    const mc_operand *x = rows_of(t->calls[0]);
    to->d = x->layout->shape[x->layout->ndim - 1];
    to->x = mc_cuda_view_of(t->calls[0], x);
    to->x.strides[0] = stride_of(x->layout, &to->rows);
    for (int k = 0; k < t->n; k++) {
        const mc_call *call = t->calls[k];
        switch (step_of(call)) {
        case NORM:
            to->norms = 1;
            to->norm = mc_cuda_norm_of(call);
            break;
        case ROPE:
            to->rotates = 1;
            to->rope = mc_cuda_rope_of(call);
            break;
        case CONVERT:
            to->converts = 1;
            to->converted = mc_cuda_view_of(call, &call->out);
            break;
        default:
            to->copies = 1;
            to->copy = mc_cuda_slice_update_at_of(call);
            to->copy_stride = row_stride(&to->copy, to->d);
        }
    }
}

bool mc_cuda_heads_of(const mc_call *call, mc_cuda_heads *a) {
    track tracks[MC_CUDA_TRACKS];
    int n_tracks = 0;
    for (int k = 0; k < call->span; k++)
        if (!place_call(&call[k], tracks, &n_tracks)) return false;
    memset(a, 0, sizeof *a);
    a->n = n_tracks;
    for (int i = 0; i < n_tracks; i++) {
        const mc_layout *l = rows_of(tracks[i].calls[0])->layout;
        int64_t n, d = l->shape[l->ndim - 1];
        if (stride_of(l, &n) < 0 || d % MC_CUDA_HEAD_LANES != 0 || d > MC_CUDA_MAX_HEAD)
            return false;
        for (int k = 0; k < tracks[i].n; k++)
            if (!fits(tracks[i].calls[k], n, d)) return false;
        set_track(&tracks[i], &a->tracks[i]);
        a->blocks[i] = (n + WARPS - 1) / WARPS;
    }
    return is_apart(tracks, n_tracks);
}

mica_status mc_cuda_run_heads(const mc_call *call, const mc_cuda_heads *a) {
    mc_cuda_grid grid = {.y = 1, .z = 1, .threads = THREADS};
    for (int i = 0; i < a->n; i++)
        grid.x += a->blocks[i];
    return mc_cuda_start(call, MC_CUDA_HEADS_KERNEL, grid, a);
}

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

enum { NORM = 1, ROPE, CONVERT, COPY };

/* Rows [d] along two axes of a layout at most: a single one is the second. */
typedef struct head_rows {
    int64_t n[2], strides[2];
    int axes[2];
} head_rows;

/* What a call of a track reads or writes, with strides along the track's two axes. */
typedef struct end {
    const mc_operand *x;
    int64_t strides[2];
} end;

/* A track as it is put together: its calls, in order. */
typedef struct track {
    const mc_call *calls[MC_MAX_CHAIN];
    end from[COPY + 1], to[COPY + 1]; /* of each */
    int64_t n[2];
    int n_calls;
    int step;     /* of the last call */
    int position; /* the axis that tells positions; -1: all are at one */
} track;

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

/* Whether a layout's last axis has numbers that follow each other, and two axes before it at most
 * are longer than 1. */
static bool find_rows(const mc_layout *l, head_rows *r) {
    int at = 1;
    *r = (head_rows){.n = {1, 1}, .axes = {-1, -1}};
    if (l->ndim < 2 || (l->shape[l->ndim - 1] > 1 && l->strides[l->ndim - 1] != 1)) return false;
    for (int k = l->ndim - 2; k >= 0; k--) {
        if (l->shape[k] == 1) continue;
        if (at < 0) return false;
        r->n[at] = l->shape[k];
        r->strides[at] = l->strides[k];
        r->axes[at--] = k;
    }
    return true;
}

static bool fits_rope(const mc_call *call, int64_t d) {
    const mc_attr_rope *attr = call->attr;
    int64_t half = attr->dims / 2;
    return !attr->traditional && call->in[0].layout->shape[0] == 1 && attr->dims <= d &&
           attr->dims % 2 == 0 &&
           (half == MC_CUDA_HEAD_LANES || half == 2 * MC_CUDA_HEAD_LANES ||
            half == 4 * MC_CUDA_HEAD_LANES);
}

static bool is_same(const int64_t *x, const int64_t *y, bool turned) {
    return x[0] == y[turned] && x[1] == y[!turned];
}

/* Whether a call's rows, whose axes may be the other way round, are those that the track has. */
static bool goes_on(const track *t, const head_rows *r, bool *turned) {
    const end *last = &t->to[t->n_calls - 1];
    *turned = !is_same(t->n, r->n, false) || !is_same(last->strides, r->strides, false);
    return is_same(t->n, r->n, *turned) && is_same(last->strides, r->strides, *turned);
}

/* Puts a call, which fits, behind the others of its track. */
static bool add_call(track *t, const mc_call *call) {
    const mc_operand *x = rows_of(call);
    head_rows in, out;
    bool turned = false, copies = call->op == MC_OP_SLICE_UPDATE_AT;
    if (!find_rows(x->layout, &in) || (t->n_calls > 0 && !goes_on(t, &in, &turned))) return false;
    if (!copies && (!find_rows(call->out.layout, &out) || !is_same(in.n, out.n, false)))
        return false;
    end *from = &t->from[t->n_calls], *to = &t->to[t->n_calls];
    from->x = x;
    to->x = &call->out;
    for (int i = 0; i < 2; i++) {
        int k = turned ? 1 - i : i, axis = in.axes[k];
        t->n[i] = in.n[k];
        from->strides[i] = in.strides[k];
        to->strides[i] = axis >= 0 ? call->out.layout->strides[axis] : 0;
        if (call->op == MC_OP_ROPE && axis == x->layout->ndim - 2) t->position = i;
    }
    t->step = step_of(call);
    t->calls[t->n_calls++] = call;
    return true;
}

/* Whether the kernel does what call does, to rows of d. */
static bool fits(const mc_call *call, int64_t d) {
    const mc_operand *x = rows_of(call);
    const mc_layout *out = call->out.layout;
    bool ends = call->op == MC_OP_SLICE_UPDATE_AT;
    mica_dtype dtype = ends || call->op == MC_OP_ASTYPE ? out->dtype : MICA_F32;
    return x->data && x->layout->ndim == out->ndim && out->strides[out->ndim - 1] == 1 &&
           x->layout->dtype == (ends ? out->dtype : MICA_F32) && out->dtype == dtype &&
           x->layout->shape[x->layout->ndim - 1] == d &&
           (call->op != MC_OP_ROPE || fits_rope(call, d));
}

/* Puts a call behind that whose result it takes, or begins a track. */
static bool place_call(const mc_call *call, track *tracks, int *n_tracks) {
    const mc_operand *x = rows_of(call);
    int step = step_of(call);
    track *t = NULL;
    if (!step || !x->data || x->layout->ndim < 2) return false;
    int64_t d = x->layout->shape[x->layout->ndim - 1];
    if (d % MC_CUDA_HEAD_LANES != 0 || d > MC_CUDA_MAX_HEAD || !fits(call, d)) return false;
    for (int i = 0; i < *n_tracks; i++)
        if (tracks[i].to[tracks[i].n_calls - 1].x->data == x->data) t = &tracks[i];
    if (!t) {
        if (*n_tracks == MC_CUDA_TRACKS || x->layout->dtype != MICA_F32) return false;
        t = &tracks[(*n_tracks)++];
        *t = (track){.position = -1};
    }
    return step > t->step && add_call(t, call);
}

/* Whether a row lies at the same place in both: what a lane of the kernel writes, it has read. */
static bool is_same_place(const end *x, const end *y) {
    return x->x->data == y->x->data && x->x->layout->dtype == MICA_F32 &&
           y->x->layout->dtype == MICA_F32 && is_same(x->strides, y->strides, false);
}

/* Rows are computed at once: nothing is written where another one may still be read, or was
 * written. */
static bool is_apart(const track *tracks, int n_tracks) {
    const end *from[MC_CUDA_TRACKS * COPY], *to[MC_CUDA_TRACKS * COPY];
    int n = 0, track_of[MC_CUDA_TRACKS * COPY];
    for (int i = 0; i < n_tracks; i++)
        for (int k = 0; k < tracks[i].n_calls; k++) {
            track_of[n] = i;
            from[n] = &tracks[i].from[k];
            to[n++] = &tracks[i].to[k];
        }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            bool own = track_of[i] == track_of[k];
            bool given = own && k == i + 1; /* what the call before it wrote, which is not read */
            if (!given && !(own && is_same_place(from[k], to[i])) &&
                mc_cuda_overlap(from[k]->x, to[i]->x))
                return false;
            if (k != i && !(own && is_same_place(to[k], to[i])) &&
                mc_cuda_overlap(to[k]->x, to[i]->x))
                return false;
        }
    return true;
}

/* A view with these strides. */
static mc_cuda_head_view short_view(const mc_cuda_view *x, const int64_t *strides, int n) {
    mc_cuda_head_view view = {
        .data = x->data, .number = x->number, .dtype = x->dtype, .is_there = x->is_there};
    memcpy(view.strides, strides, (size_t)n * sizeof *strides);
    return view;
}

static mc_cuda_head_view operand_of(const mc_cuda_view *x) {
    return short_view(x, x->strides, 1);
}

static mc_cuda_head_norm norm_of(const mc_call *call, const end *to) {
    mc_cuda_norm a = mc_cuda_norm_of(call);
    return (mc_cuda_head_norm){
        .eps = a.eps, .weight = operand_of(&a.weight), .out = short_view(&a.out, to->strides, 2)};
}

static mc_cuda_head_rope rope_of(const mc_call *call, const end *to) {
    mc_cuda_rope a = mc_cuda_rope_of(call);
    return (mc_cuda_head_rope){.half = a.half,
                               .base = a.base,
                               .scale = a.scale,
                               .rates = a.rates,
                               .offset = operand_of(&a.offset),
                               .freqs = operand_of(&a.freqs),
                               .out = short_view(&a.out, to->strides, 2)};
}

static mc_cuda_head_copy copy_of(const mc_call *call, const end *to) {
    mc_cuda_copy a = mc_cuda_slice_update_at_of(call);
    return (mc_cuda_head_copy){.start_stride = a.start_stride,
                               .length = a.length,
                               .count = a.count,
                               .start = operand_of(&a.start),
                               .out = short_view(&a.out, to->strides, 2),
                               .fault = a.fault,
                               .op = a.op,
                               .axis = a.axis};
}

static void set_track(const track *t, mc_cuda_track *to) {
    const mc_operand *x = t->from[0].x;
    mc_cuda_view view = mc_cuda_view_of(t->calls[0], x);
    to->d = x->layout->shape[x->layout->ndim - 1];
    to->rows = t->n[0] * t->n[1];
    to->inner = t->n[1];
    to->position_axis = t->position;
    to->x = short_view(&view, t->from[0].strides, 2);
    for (int k = 0; k < t->n_calls; k++) {
        const mc_call *call = t->calls[k];
        switch (step_of(call)) {
        case NORM:
            to->norms = 1;
            to->norm = norm_of(call, &t->to[k]);
            break;
        case ROPE:
            to->rotates = 1;
            to->rope = rope_of(call, &t->to[k]);
            break;
        case CONVERT:
            to->converts = 1;
            view = mc_cuda_view_of(call, &call->out);
            to->converted = short_view(&view, t->to[k].strides, 2);
            break;
        default:
            to->copies = 1;
            to->copy = copy_of(call, &t->to[k]);
        }
    }
}

static bool is_given(const mc_call *call, int k) {
    return k >= call->n_in || !call->in[k].layout || mc_run_is_number(call->run, &call->in[k]) ||
           mc_run_is_given(call, k);
}

bool mc_cuda_heads_of(const mc_call *call, mc_cuda_heads *a) {
    track tracks[MC_CUDA_TRACKS];
    int n_tracks = 0;
    for (int k = 0; k < call->span; k++)
        if (!place_call(&call[k], tracks, &n_tracks)) return false;
    memset(a, 0, sizeof *a);
    a->n = n_tracks;
    a->given = 1;
    for (int k = 0; k < call->span; k++) /* a weight; a position and frequencies */
        if (step_of(&call[k]) == NORM || step_of(&call[k]) == ROPE)
            a->given = a->given && is_given(&call[k], 1) && is_given(&call[k], 2);
    for (int i = 0; i < n_tracks; i++) {
        set_track(&tracks[i], &a->tracks[i]);
        if (a->tracks[i].rows > INT32_MAX) return false;
        a->blocks[i] = (a->tracks[i].rows + WARPS - 1) / WARPS;
    }
    return is_apart(tracks, n_tracks);
}

mica_status mc_cuda_run_heads(const mc_call *call, const mc_cuda_heads *a) {
    mc_cuda_grid grid = {.y = 1, .z = 1, .threads = THREADS};
    for (int i = 0; i < a->n; i++)
        grid.x += a->blocks[i];
    return mc_cuda_start(call, MC_CUDA_HEADS_KERNEL, grid, a);
}

#include "cuda/fuse.h"

#include <string.h>

#include "cuda/kern/attention_row.h"
#include "cuda/kern/gemv.h"

/* What the next product takes over: a norm of its x, or x that lies elsewhere and is written where
 * it should. */
typedef struct pending {
    const mc_cuda_add_norm *norm; /* NULL: there is none */
    float *x, *written;           /* x NULL: it lies where it should */
} pending;

/* Memory for results that may not lie where they should yet. */
typedef struct spare_memory {
    float *attention, *product, *turns; /* NULL: there is none */
} spare_memory;

static const void *args_of(const mc_cuda_nodes *list, size_t i, mc_cuda_kernel kernel) {
    if (i >= MC_BUFFER_COUNT(&list->nodes, mc_cuda_node)) return NULL;
    const mc_cuda_node *node = MC_BUFFER_AT(&list->nodes, mc_cuda_node) + i;
    return node->kernel == kernel ? list->args.data + node->at : NULL;
}

static bool is_gemv(mc_cuda_kernel kernel) {
    return kernel >= MC_CUDA_GEMV_Q4_KERNEL && kernel <= MC_CUDA_GEMV_BF16_KERNEL;
}

static const mc_cuda_gemv *gemv_of(const mc_cuda_nodes *list, size_t i) {
    if (i >= MC_BUFFER_COUNT(&list->nodes, mc_cuda_node)) return NULL;
    const mc_cuda_node *node = MC_BUFFER_AT(&list->nodes, mc_cuda_node) + i;
    return is_gemv(node->kernel) ? (const void *)(list->args.data + node->at) : NULL;
}

/* Whether rows of n numbers lie apart. A block writes while others still read: only what a thread
 * has read itself may be written over. */
static bool is_apart(const float *x, int64_t n_x, const float *y, int64_t n_y) {
    uintptr_t u = (uintptr_t)x, v = (uintptr_t)y;
    return u + (uintptr_t)n_x * sizeof *x <= v || v + (uintptr_t)n_y * sizeof *y <= u;
}

static bool is_same_or_apart(const float *x, const float *y, int64_t n) {
    return x == y || is_apart(x, n, y, n);
}

/* The one row that a product reads, of so many numbers; NULL: it is another. */
static const float *row_of(const mc_cuda_gemv *a, int64_t k) {
    return a && a->x_rows == 1 && a->k == k ? a->x : NULL;
}

/* The numbers from the first that a product reads to the last. */
static int64_t k_of(const mc_cuda_gemv *a) {
    return (a->x_rows - 1) * a->x_stride + a->k;
}

/* Of all batches. */
static int64_t n_of(const mc_cuda_gemv *a, int matrix) {
    return (int64_t)a->matrices[matrix].n * a->batches;
}

static bool is_apart_from_index(const mc_cuda_gemv *a, const mc_cuda_gemv_index *index,
                                const float *x, int64_t n) {
    return !index->data ||
           is_apart(x, n, (const void *)index->data, (a->batches - 1) * index->stride + 1);
}

/* Whether memory lies apart from what all blocks of a product read. */
static bool is_apart_from_row(const mc_cuda_gemv *a, const float *x, int64_t n) {
    return is_apart(x, n, a->x, k_of(a)) && is_apart_from_index(a, &a->lhs, x, n) &&
           is_apart_from_index(a, &a->rhs, x, n) &&
           (!a->inner_weight || is_apart(x, n, a->inner_addend, k_of(a))) &&
           (!a->inner_sum || is_apart(x, n, a->inner_sum, k_of(a)));
}

/* A gate behind two products. */
static bool take_gate(mc_cuda_gemv *a, const mc_cuda_gated *gate) {
    if (!gate || a->n_matrices != 2) return false;
    const mc_cuda_gemv_matrix *x = &a->matrices[0], *y = &a->matrices[1];
    int64_t n = (int64_t)x->n * a->batches;
    if (gate->x != x->out || gate->y != y->out || gate->size != n || y->n != x->n ||
        !is_apart_from_row(a, gate->gate, n) || !is_apart_from_row(a, gate->out, n) ||
        !is_same_or_apart(gate->gate, x->out, n) || !is_apart(gate->gate, n, y->out, n) ||
        !is_same_or_apart(gate->out, x->out, n) || !is_same_or_apart(gate->out, y->out, n) ||
        !is_same_or_apart(gate->out, gate->gate, n))
        return false;
    a->gate = gate->gate;
    a->gated = gate->out;
    a->is_gelu = gate->is_gelu;
    return true;
}

/* A sum behind a product, where the norm of it is the next product's. */
static bool take_sum(mc_cuda_gemv *a, const mc_cuda_add_norm *sum, const mc_cuda_gemv *next) {
    if (!sum || sum->inner_weight || sum->bias || !next || a->n_matrices != 1 || a->batches != 1)
        return false;
    const mc_cuda_gemv_matrix *m = &a->matrices[0];
    const float *other = sum->x == m->out ? sum->y : sum->x;
    if ((sum->x != m->out && sum->y != m->out) || other == m->out || sum->rows != 1 ||
        sum->d != m->n || row_of(next, sum->d) != sum->out || sum->d > MC_CUDA_GEMV_NORM_K ||
        !is_apart_from_row(a, sum->sum, m->n) || !is_apart(sum->sum, m->n, sum->out, m->n) ||
        !is_same_or_apart(sum->sum, other, m->n) || !is_same_or_apart(sum->sum, m->out, m->n) ||
        !sum->given || (a->written && !is_apart(a->written, k_of(a), other, m->n)))
        return false;
    for (int i = 0; i < next->n_matrices; i++) /* of which each block reads the sum */
        if (!is_apart(sum->sum, m->n, next->matrices[i].out, n_of(next, i))) return false;
    a->addend = other;
    a->sum = sum->sum;
    return true;
}

/* A norm behind a product, and a sum, where the norm of that is the next product's: which computes
 * all of it, in each block. What is written where others still read is written at its end. */
static bool take_inner(mc_cuda_gemv *a, const mc_cuda_add_norm *sum, const mc_cuda_gemv *next,
                       float *spare, pending *p) {
    if (!sum || !sum->inner_weight || !next || a->n_matrices != 1 || a->batches != 1) return false;
    mc_cuda_gemv_matrix *m = &a->matrices[0];
    const int64_t n = m->n;
    bool is_over = !is_apart(m->out, n, sum->normed, n) || !is_apart(m->out, n, sum->sum, n);
    if (sum->y != m->out || sum->rows != 1 || sum->d != n || row_of(next, n) != sum->out ||
        n > MC_CUDA_GEMV_NORM_K || !sum->given || !is_apart(sum->out, n, sum->x, n))
        return false;
    for (int i = 0; i < next->n_matrices; i++) {
        const mc_cuda_gemv_matrix *out = &next->matrices[i];
        int64_t width = n_of(next, i);
        if (!is_apart(sum->x, n, out->out, width) || !is_apart(sum->sum, n, out->out, width))
            return false;
        is_over = is_over || !is_apart(m->out, n, out->out, width);
    }
    is_over = is_over || !is_apart(m->out, n, sum->out, n);
    if (is_over && !spare) return false;
    if (is_over) m->out = spare; /* its own memory is written over */
    *p = (pending){.norm = sum, .x = m->out};
    return true;
}

/* What is written over by what comes behind it is not written. */
static void leave_inner(mc_cuda_gemv *a, const mc_cuda_add_norm *norm) {
    int64_t n = norm->d;
    if (!is_apart(norm->normed, n, norm->sum, n) || !is_apart(norm->normed, n, norm->out, n))
        a->inner_norm = NULL;
    if (!is_apart(norm->sum, n, norm->out, n)) a->inner_sum = NULL;
}

/* What is left for it by the kernels before. */
static void take_pending(mc_cuda_gemv *a, const pending *p) {
    const mc_cuda_add_norm *norm = p->norm;
    if (p->x) {
        a->x = p->x;
        a->written = p->written;
    }
    if (!norm) return;
    if (norm->inner_weight) {
        a->inner_weight = norm->inner_weight;
        a->inner_is_bf16 = norm->inner_is_bf16;
        a->inner_eps = norm->inner_eps;
        a->inner_addend = norm->x;
        a->inner_norm = norm->normed;
        a->inner_sum = norm->sum;
        leave_inner(a, norm);
    } else {
        a->x = norm->sum;
    }
    a->weight = norm->weight;
    a->weight_is_bf16 = norm->weight_is_bf16;
    a->eps = norm->eps;
    a->written = norm->out;
}

/* Whether nothing that the kernel computes lies there. */
static bool is_apart_from_results(const mc_cuda_gemv *a, const float *x, int64_t k) {
    const float *results[] = {a->sum, a->gate, a->gated};
    bool apart = true;
    for (int i = 0; i < a->n_matrices; i++)
        apart = apart && is_apart(x, k, a->matrices[i].out, n_of(a, i));
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        apart = apart && (!results[i] || is_apart(x, k, results[i], n_of(a, 0)));
    return apart;
}

/* x, or norms of it, are not written where the kernel's results are. */
static void leave_written(mc_cuda_gemv *a) {
    float **written[] = {&a->written, &a->inner_norm};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (*written[i] && !is_apart_from_results(a, *written[i], k_of(a))) *written[i] = NULL;
}

/* Node i, a product, with those behind it that it can take over: their number. */
static size_t fuse_product(const mc_cuda_nodes *from, size_t i, const spare_memory *spare,
                           mc_cuda_gemv *a, pending *p) {
    size_t taken = 0;
    take_pending(a, p);
    *p = (pending){NULL, NULL, NULL};
    const mc_cuda_add_norm *sum = args_of(from, i + 1, MC_CUDA_ADD_NORM_KERNEL);
    if (take_gate(a, args_of(from, i + 1, MC_CUDA_GATED_KERNEL))) {
        taken = 1;
    } else if (take_sum(a, sum, gemv_of(from, i + 2))) {
        p->norm = sum;
        taken = 1;
    } else if (take_inner(a, sum, gemv_of(from, i + 2), spare->product, p)) {
        taken = 1;
    }
    leave_written(a);
    return taken;
}

/* ---- attention ---- */

/* Whether heads lie where attention has them. */
static bool is_row_of(const mc_cuda_track *t, const mc_cuda_head_view *heads,
                      const mc_cuda_view *x) {
    return heads->data == x->data && (t->rows == 1 || heads->strides[1] == x->strides[1]) &&
           x->strides[3] == 1;
}

/* The numbers from the first of a track's rows on, to the last. */
static int64_t extent_of(const mc_cuda_track *t, const mc_cuda_head_view *x) {
    return (t->rows - 1) * x->strides[1] + t->d;
}

/* Whether what heads x become lies where they do, or apart from them. */
static bool is_in_place_or_apart(const mc_cuda_track *t, const mc_cuda_head_view *x,
                                 const mc_cuda_head_view *y) {
    return (x->data == y->data && (t->rows == 1 || x->strides[1] == y->strides[1])) ||
           is_apart(x->data, extent_of(t, x), y->data, extent_of(t, y));
}

/* Heads of the query, on their way to where attention looks for them. */
static bool is_query(const mc_cuda_track *t, const mc_cuda_attention *a) {
    return t->rows == a->heads && t->inner == a->heads && t->d == a->d && t->rotates &&
           !t->converts && !t->copies && t->position_axis < 0 && a->q.dtype == MC_CUDA_F32 &&
           is_row_of(t, &t->rope.out, &a->q) && is_in_place_or_apart(t, &t->x, &t->rope.out) &&
           (!t->norms || (is_in_place_or_apart(t, &t->x, &t->norm.out) &&
                          is_in_place_or_apart(t, &t->norm.out, &t->rope.out)));
}

/* What the last key, or value, becomes: it is written where attention looks for it. */
static bool is_last(const mc_cuda_track *t, const mc_cuda_attention *a, const mc_cuda_view *cache) {
    const mc_cuda_head_copy *c = &t->copy;
    return t->rows == a->kv_heads && t->inner == a->kv_heads && t->d == a->d && t->copies &&
           t->position_axis < 0 && c->count == 1 && c->start.is_there && c->start.data &&
           c->start.data == a->offset.data && c->start_stride == cache->strides[2] &&
           is_row_of(t, &c->out, cache);
}

/* Whether results lie apart from heads, and from all that these become: others still read, or
 * write it. */
static bool keeps_heads(const mc_cuda_attention_row *a) {
    const mc_cuda_attention *at = &a->attention;
    if (at->out.dtype != MC_CUDA_F32) return false;
    for (int i = 0; i < MC_CUDA_TOKEN_TRACKS; i++) {
        const mc_cuda_track *t = &a->tracks[i];
        const mc_cuda_head_view *views[] = {&t->x, t->norms ? &t->norm.out : NULL,
                                            t->rotates ? &t->rope.out : NULL,
                                            t->converts ? &t->converted : NULL};
        for (size_t k = 0; k < sizeof views / sizeof *views; k++)
            if (views[k] &&
                !is_apart(views[k]->data, extent_of(t, views[k]), at->out.data, at->heads * at->d))
                return false;
    }
    return true;
}

/* Lets results lie in spare memory, where the next product finds them, and write what it reads to
 * where they should be. */
static bool spare_results(mc_cuda_attention *a, const mc_cuda_gemv *next, float *spare,
                          pending *p) {
    if (!spare || a->out.dtype != MC_CUDA_F32 || row_of(next, a->heads * a->d) != a->out.data)
        return false;
    p->written = a->out.data;
    p->x = a->out.data = spare;
    return true;
}

static bool may_take_heads(const mc_cuda_attention_row *a, const mc_cuda_heads *heads) {
    const mc_cuda_attention *at = &a->attention;
    return a->has_keys && heads->given && heads->n == MC_CUDA_TOKEN_TRACKS && at->batch == 1 &&
           at->head_groups == 1 && !at->lse.is_there;
}

/* ---- cosines ---- */

static bool is_same_view(const mc_cuda_head_view *x, const mc_cuda_head_view *y) {
    return x->is_there == y->is_there &&
           (!x->is_there || (x->data == y->data && x->number == y->number && x->dtype == y->dtype &&
                             x->strides[0] == y->strides[0]));
}

static bool turns_alike(const mc_cuda_head_rope *x, const mc_cuda_head_rope *y) {
    return x->half == y->half && x->rates == y->rates && memcmp(&x->base, &y->base, 8) == 0 &&
           memcmp(&x->scale, &y->scale, 8) == 0 && is_same_view(&x->offset, &y->offset) &&
           is_same_view(&x->freqs, &y->freqs);
}

/* Where a token's cosines and sines are; NULL: nobody computes them. */
static const float *find_turns(const mc_cuda_turns *turns, const mc_cuda_head_rope *rope) {
    for (int64_t i = 0; i < turns->n; i++)
        if (turns_alike(&turns->ropes[i], rope)) return turns->to + i * (MC_CUDA_MAX_HEAD / 2) * 2;
    return NULL;
}

/* Those of all heads that attention may take over. */
static mc_cuda_turns turns_of(const mc_cuda_nodes *list, float *to) {
    mc_cuda_turns turns = {.to = to};
    for (size_t i = 0; to && i < MC_BUFFER_COUNT(&list->nodes, mc_cuda_node); i++) {
        const mc_cuda_heads *heads = args_of(list, i, MC_CUDA_HEADS_KERNEL);
        const mc_cuda_attention_row *a = args_of(list, i + 1, MC_CUDA_ATTENTION_ROW_KERNEL);
        if (!heads || !a || !may_take_heads(a, heads)) continue;
        for (int k = 0; k < heads->n && turns.n < MC_CUDA_TURNS; k++) {
            const mc_cuda_track *t = &heads->tracks[k];
            if (t->rotates && t->position_axis < 0 && !find_turns(&turns, &t->rope))
                turns.ropes[turns.n++] = t->rope;
        }
    }
    for (int64_t i = 0; i < turns.n; i++)
        turns.ropes[i].out = (mc_cuda_head_view){0}; /* of one layer */
    return turns;
}

/* A launch's kernels begin with them, behind those that bring its numbers. */
static mica_status add_turns(const mc_cuda_turns *turns, mc_cuda_nodes *to) {
    mc_cuda_grid grid = {.x = turns->n, .y = 1, .z = 1, .threads = MC_CUDA_MAX_HEAD / 2};
    if (turns->n == 0) return MICA_OK;
    return mc_cuda_nodes_add(to, MC_CUDA_TURNS_KERNEL, grid, turns, sizeof *turns);
}

/* ---- attention of a token ---- */

/* Heads before attention of one token, where a block has all that share a key; next: the product
 * behind that, or NULL. */
static bool take_heads(mc_cuda_attention_row *a, const mc_cuda_heads *heads,
                       const mc_cuda_gemv *next, const mc_cuda_turns *turns, float *spare,
                       pending *p) {
    mc_cuda_attention *at = &a->attention;
    int found = 0;
    if (!may_take_heads(a, heads)) return false;
    for (int i = 0; i < heads->n; i++) {
        const mc_cuda_track *t = &heads->tracks[i];
        int role = is_query(t, at)          ? MC_CUDA_TRACK_Q
                   : is_last(t, at, &at->k) ? MC_CUDA_TRACK_K
                                            : MC_CUDA_TRACK_V;
        if (role == MC_CUDA_TRACK_V && !is_last(t, at, &at->v)) return false;
        a->tracks[role] = *t;
        a->tracks[role].rope.turns = find_turns(turns, &t->rope);
        found |= 1 << role;
    }
    a->takes_heads = 1;
    return found == 7 && (keeps_heads(a) || spare_results(at, next, spare, p));
}

/* What results of attention, and of products whose norms are taken over, need. */
static void count_spare(const mc_cuda_nodes *list, size_t *attention, size_t *product,
                        size_t *turns) {
    *attention = *product = *turns = 0;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&list->nodes, mc_cuda_node); i++) {
        const mc_cuda_attention_row *a = args_of(list, i, MC_CUDA_ATTENTION_ROW_KERNEL);
        const mc_cuda_add_norm *sum = args_of(list, i, MC_CUDA_ADD_NORM_KERNEL);
        size_t heads = a ? (size_t)(a->attention.heads * a->attention.d) : 0;
        size_t row = sum && sum->inner_weight ? (size_t)sum->d : 0;
        if (heads > *attention) *attention = heads;
        if (row > *product) *product = row;
        if (a) *turns = MC_CUDA_TURNS * MC_CUDA_MAX_HEAD;
    }
    *attention = (*attention + 3) / 4 * 4;
    *product = (*product + 3) / 4 * 4;
}

size_t mc_cuda_spare_bytes(const mc_cuda_nodes *list) {
    size_t attention, product, turns;
    count_spare(list, &attention, &product, &turns);
    return (attention + product + turns) * sizeof(float);
}

static spare_memory divide_spare(const mc_cuda_nodes *list, uint64_t spare) {
    size_t attention, product, turns;
    float *all = (float *)(uintptr_t)spare;
    count_spare(list, &attention, &product, &turns);
    return (spare_memory){.attention = all,
                          .product = all ? all + attention : NULL,
                          .turns = all && turns ? all + attention + product : NULL};
}

mica_status mc_cuda_fuse(const mc_cuda_nodes *from, uint64_t spare, mc_cuda_nodes *to) {
    size_t n = MC_BUFFER_COUNT(&from->nodes, mc_cuda_node);
    const spare_memory memory = divide_spare(from, spare);
    const mc_cuda_turns turns = turns_of(from, memory.turns);
    pending p = {NULL, NULL, NULL};
    bool begun = false;
    for (size_t i = 0; i < n; i++) {
        const mc_cuda_node *node = MC_BUFFER_AT(&from->nodes, mc_cuda_node) + i;
        const void *args = from->args.data + node->at;
        mc_cuda_grid grid = node->grid;
        mc_cuda_gemv product;
        mc_cuda_attention_row token;
        const mc_cuda_attention_row *next = args_of(from, i + 1, MC_CUDA_ATTENTION_ROW_KERNEL);
        if (!begun && node->kernel != MC_CUDA_NUMBERS_KERNEL) {
            MC_TRY(add_turns(&turns, to));
            begun = true;
        }
        if (is_gemv(node->kernel)) {
            product = *(const mc_cuda_gemv *)args;
            i += fuse_product(from, i, &memory, &product, &p);
            args = &product;
        } else if (node->kernel == MC_CUDA_HEADS_KERNEL && next && i > 0 &&
                   is_gemv(node[-1].kernel)) { /* not a copy of the cache */
            token = *next;
            if (take_heads(&token, args, gemv_of(from, i + 2), &turns, memory.attention, &p)) {
                i++;
                node++;
                args = &token;
                grid = node->grid;
                grid.early = true;
            }
        }
        MC_TRY(mc_cuda_nodes_add(to, node->kernel, grid, args, node->bytes));
    }
    return MICA_OK;
}

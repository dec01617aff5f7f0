#include "cpu/chain.h"

#include "cpu/eval.h"
#include "cpu/rows.h"

/* of a chain; with that many rows, one row more makes a thread little later */
#define ROWS_A_THREAD 4

/* of a region: a block of each of a few arrays stays in the first-level cache */
#define REGION_BLOCK 4096

/* of a chain by rows; units may be rows themselves, and then all go at once */
#define ROWS_BLOCK 16384

typedef enum operands { ALL, EACH, FIRST, SECOND } operands;

static const struct stage_row {
    mc_stage_fn prepare;
    operands by_row;
} stage_table[MC_OP_COUNT] = {
#define EVAL(op, fn)
#define STAGE(op, fn, by_row) [MC_OP_##op] = {fn, by_row},
#include "cpu/eval_list.h"
#include "cpu/region.h"
};

bool mc_is_stage(mc_op op) {
    return stage_table[op].prepare != NULL;
}

/* ---- questions of the planner ---- */

/* Whether the last axis is contiguous. */
static bool has_whole_rows(const mc_layout *l) {
    return l->ndim > 0 && l->strides[l->ndim - 1] == 1 && mc_layout_size(l) > 0;
}

mc_row_form mc_stage_form(mc_op op, const mc_layout *const *in, int n_in) {
    bool second = stage_table[op].by_row == SECOND;
    if (op == MC_OP_CONTIGUOUS || op == MC_OP_SLICE_UPDATE_AT || op == MC_OP_KV_WRITE)
        if (!has_whole_rows(in[second])) return (mc_row_form){0}; /* copying in tiles is better */
    if (second) return (mc_row_form){.by_row = 2};
    uint32_t all = (UINT32_C(1) << n_in) - 1;
    bool each = stage_table[op].by_row == EACH;
    return (mc_row_form){.by_row = each || stage_table[op].by_row == ALL ? all : 1,
                         .result = true,
                         .by_element = each};
}

int64_t mc_chain_enough_rows(const void *state) {
    const mc_cpu *cpu = state;
    return (int64_t)ROWS_A_THREAD * cpu->threads;
}

/* ---- building a chain ---- */

static const mc_layout *leading(const mc_call *call) {
    return call->in[stage_table[call->op].by_row == SECOND ? 1 : 0].layout;
}

/* Sets how the rows of x are laid out in units; in a region they are elements. */
static void find_rows(mc_stage *stage, const mc_layout *x, int axis) {
    if (axis == MC_BY_ELEMENT) {
        stage->outer = 1;
        stage->rows = mc_layout_size(x);
        return;
    }
    stage->outer = mc_row_count(x, axis);
    stage->rows = x->shape[axis];
}

mica_status mc_chain_measure(mc_chain *chain, const mc_call *call, int n) {
    chain->call = call;
    chain->n = chain->n_calls = n;
    chain->span = n > 0 && call->span > n ? call->span : n;
    chain->bytes = 0;
    for (int i = 0; i < n; i++) {
        mc_stage *stage = &chain->stages[i];
        stage->memory = NULL;
        MC_TRY(stage_table[call[i].op].prepare(&call[i], stage));
        chain->bytes += (stage->bytes + 63) / 64 * 64;
        if (n > 1 || call->span != 1) find_rows(stage, leading(&call[i]), call[i].axis);
    }
    return MICA_OK;
}

mica_status mc_chain_prepare(mc_chain *chain, void *memory) {
    char *next = memory;
    for (int i = 0; i < chain->n_calls; i++) {
        const mc_call *call = &chain->call[i];
        mc_stage *stage = &chain->stages[i];
        stage->memory = next;
        next += (stage->bytes + 63) / 64 * 64;
        MC_TRY(stage_table[call->op].prepare(call, stage));
    }
    return MICA_OK;
}

void mc_chain_add(mc_chain *chain, const mc_layout *x, int axis, mc_range_fn fn, void *context,
                  int64_t units, int64_t grain) {
    mc_stage *stage = &chain->stages[chain->n++];
    mc_stage_set(stage, fn, context, units, grain);
    if (chain->n > 1) find_rows(stage, x, axis);
}

/* ---- running a chain ---- */

void mc_chain_rows(const mc_chain *chain, int64_t begin, int64_t end, int worker) {
    for (int i = 0; i < chain->n; i++) {
        const mc_stage *s = &chain->stages[i];
        int64_t inner = s->units / (s->outer * s->rows);
        for (int64_t o = 0; o < s->outer; o++)
            s->fn(s->context, (o * s->rows + begin) * inner, (o * s->rows + end) * inner, worker);
    }
}

/* Rows as many as stay in a near cache. */
static void run_rows(void *context, int64_t begin, int64_t end, int worker) {
    const mc_chain *chain = context;
    int64_t max = 1;
    for (int i = 0; i < chain->n; i++)
        if (chain->stages[i].units > max) max = chain->stages[i].units;
    int64_t rows = ROWS_BLOCK / (max / chain->stages[0].rows + 1) + 1;
    for (int64_t at = begin; at < end; at += rows)
        mc_chain_rows(chain, at, end - at < rows ? end : at + rows, worker);
}

static void run_blocks(void *context, int64_t begin, int64_t end, int worker) {
    for (int64_t at = begin; at < end; at += REGION_BLOCK)
        mc_chain_rows(context, at, end - at < REGION_BLOCK ? end : at + REGION_BLOCK, worker);
}

/* How many threads the work of a chain is worth. */
static double worth(const mc_chain *chain) {
    double sum = 0;
    for (int i = 0; i < chain->n; i++)
        sum += (double)chain->stages[i].units / (double)chain->stages[i].grain;
    return sum;
}

/* Whether rows are so few that the stages are faster one by one, as each alone has more parts. In a
 * chain, threads wait for the thread with most rows. One by one, each stage but the first costs a
 * region, about as much as the work that is worth a thread. */
static bool is_coarse(const mc_chain *chain, int64_t rows) {
    const mc_cpu *cpu = mc_cpu_of(chain->call);
    if (rows < cpu->threads) return true;
    if (rows >= mc_chain_enough_rows(cpu)) return false;
    double max = (double)((rows - 1) / cpu->threads + 1), even = (double)rows / cpu->threads;
    return worth(chain) * (max - even) / (double)rows > chain->n - 1;
}

/* ---- element-wise stages ---- */

/* Fewer elements than this at a time are faster by the ops' own loops. */
#define MIN_PIECE (4 * MK_STEP_TILE)

#define LOOP_BYTES 64 /* of memory for such an op's stage */

/* Elements that a stage does at a time, of a thread's share. */
static int64_t piece_of(const mc_chain *chain, const mc_stage *s) {
    if (chain->n == 1 || chain->call->axis == MC_BY_ELEMENT) return s->units;
    if (s->rows == 0 || s->outer == 0) return 0;
    int64_t rows = s->rows / mc_cpu_of(chain->call)->threads;
    return s->units / (s->outer * s->rows) * (rows > 1 ? rows : 1);
}

/* Whether two stages that go element by element have the same elements in each row. */
static bool have_same_rows(const mc_stage *a, const mc_stage *b) {
    return a->outer == b->outer && a->rows == b->rows && a->units == b->units;
}

/* How many stages from i on can run as one loop. */
static int count_fusible(const mc_chain *chain, int i) {
    bool region = chain->call->axis == MC_BY_ELEMENT;
    const mc_stage *first = &chain->stages[i];
    int n = 0;
    if (i >= chain->n_calls) return 0;
    if (piece_of(chain, first) < (region ? MK_STEP_TILE : MIN_PIECE)) return 0;
    while (i + n < chain->n_calls && (region || have_same_rows(first, &chain->stages[i + n])) &&
           mc_can_follow(&chain->call[i], n))
        n++;
    return mc_count_alike(&chain->call[i], n, chain->span - i);
}

void mc_chain_fuse(mc_chain *chain, mc_fusion *fusion) {
    int to = 0, n;
    fusion->n_steps = fusion->n_fused = fusion->n_tables = 0;
    fusion->dry = false;
    for (int i = 0; i < chain->n; i += n, to++) {
        mc_stage stage = chain->stages[i];
        double worth = 0;
        n = count_fusible(chain, i);
        for (int k = 0; k < n; k++)
            worth += 1 / (double)chain->stages[i + k].grain;
        if (n > 0)
            mc_stage_set(&stage, mc_run_fused, mc_fuse(fusion, &chain->call[i], n, chain->span - i),
                         stage.units, (int64_t)(1 / worth));
        else
            n = 1;
        chain->stages[to] = stage;
    }
    chain->n = to;
}

/* Prepares the stages that can be loops, which read no data. */
static mica_status prepare_fusible(mc_chain *chain) {
    _Alignas(64) char memory[LOOP_BYTES];
    for (int i = 0; i < chain->n; i++) {
        mc_stage *stage = &chain->stages[i];
        if (stage->bytes > sizeof memory || !mc_can_fuse(&chain->call[i])) continue;
        stage->memory = memory;
        MC_TRY(stage_table[chain->call[i].op].prepare(&chain->call[i], stage));
    }
    return MICA_OK;
}

/* Whether calls [0, n) read bytes of two arguments of a launch, which may be one array there, so
 * that tables stand for more than here. */
static bool may_read_one(const mc_call *calls, int n) {
    const void *x = NULL;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < calls[i].n_in; k++) {
            const mc_operand *in = &calls[i].in[k];
            if (!in->layout || mica_dtype_bytes(in->layout->dtype) != 1 || in->data == x ||
                mc_run_is_number(calls->run, in) || mc_run_writers(&calls[i], k) > 0)
                continue;
            if (x) return true;
            x = in->data;
        }
    return false;
}

void mc_chain_touch(const mc_call *call, int from, int n) {
    mc_chain chain;
    mc_fusion fusion = {.dry = true};
    if (may_read_one(call + from, n) || mc_chain_measure(&chain, call + from, n) != MICA_OK ||
        prepare_fusible(&chain) != MICA_OK) {
        mc_run_touch_calls(call, from, from + n);
        return;
    }
    for (int i = 0, k; i < n; i += k) {
        k = count_fusible(&chain, i);
        if (k > 0) {
            mc_fused_touch(mc_fuse(&fusion, &chain.call[i], k, chain.span - i), call);
        } else {
            mc_run_touch_calls(call, from + i, from + i + 1);
            k = 1;
        }
    }
}

void mc_chain_run(mc_chain *chain) {
    mc_fusion fusion;
    mc_chain_fuse(chain, &fusion);
    int64_t rows = chain->n > 1 ? chain->stages[0].rows : 0;
    if (is_coarse(chain, rows)) {
        for (int i = 0; i < chain->n; i++) {
            const mc_stage *s = &chain->stages[i];
            mc_cpu_for(chain->call, s->units, s->grain, s->fn, s->context);
        }
        return;
    }
    bool region = chain->call->axis == MC_BY_ELEMENT;
    mc_cpu_for(chain->call, rows, (int64_t)((double)rows / worth(chain)),
               region ? run_blocks : run_rows, chain);
}

#include "session/pass.h"

#include "base/map.h"
#include "exec/program.h"
#include "graph/graph.h"
#include "group/group.h"
#include "session/lead.h"

/* Parameters beside the states': ids, positions, and ends if they are wished. */
static size_t count_own_params(const mc_pass_rows *pass) {
    return 2 + (size_t)pass->wish.ends;
}

mica_status mc_passes_init(mc_passes *passes, mica_scope *scope, mc_pass_program *programs,
                           size_t n) {
    *passes = (mc_passes){.scope = scope, .programs = programs, .n_programs = n};
    return mica_scope_open(mica_scope_device(scope), &passes->recording);
}

void mc_passes_deinit(mc_passes *passes) {
    mica_scope_close(&passes->recording);
    mc_arena_deinit(&passes->arena);
}

/* ---- states: one list of parameters for all rows, or one for each ---- */

static int count_states(const mc_pass_rows *pass) {
    return pass->caches[0] ? pass->caches[0]->plan.n : 0;
}

static const mc_state_ops *kind_of(const mc_pass_rows *pass, int i) {
    return pass->caches[0]->states[i]->kind;
}

static size_t count_lists(const mc_pass_rows *pass, int i) {
    return kind_of(pass, i)->together ? 1 : pass->rows;
}

/* The rows of a list of state i. room [rows]: for what it names. */
static mc_state_rows list_rows(const mc_pass_rows *pass, int i, size_t list, mc_state **room) {
    size_t n = kind_of(pass, i)->together ? pass->rows : 1;
    for (size_t k = 0; k < n; k++)
        room[k] = pass->caches[list + k]->states[i];
    return (mc_state_rows){room, pass->ahead + list, n};
}

static uint64_t shape_of(const mc_pass_rows *pass) {
    mc_state *room[MC_MAX_ROWS];
    uint64_t hash = 0;
    for (int i = 0; i < count_states(pass); i++)
        for (size_t k = 0; k < count_lists(pass, i); k++) {
            mc_state_rows rows = list_rows(pass, i, k, room);
            hash = kind_of(pass, i)->shape ? kind_of(pass, i)->shape(rows, hash)
                                           : mc_hash(&room[0]->cap, sizeof room[0]->cap, hash);
        }
    return hash;
}

static size_t count_state_params(const mc_pass_rows *pass) {
    size_t n = 0;
    for (int i = 0; i < count_states(pass); i++)
        n += count_lists(pass, i) * kind_of(pass, i)->param_count(pass->caches[0]->states[i]);
    return n;
}

static size_t count_state_results(const mc_pass_rows *pass) {
    size_t n = 0;
    for (int i = 0; i < count_states(pass); i++)
        n += count_lists(pass, i) * kind_of(pass, i)->result_count(pass->caches[0]->states[i]);
    return n;
}

/* ---- recording ---- */

/* Row `row` of a pass that is recorded, or all of it. */
typedef struct row_store {
    const mc_pass_rows *pass;
    size_t row;
} row_store;

/* The pass that is recorded. */
typedef struct recording {
    const mc_pass_rows *pass;
    mc_kv_store stores[MC_MAX_ROWS]; /* of its rows, where it has several */
    row_store rows[MC_MAX_ROWS];
    mica_array *layers; /* queries and keys of wish.layers */
} recording;

static mc_place place_of(const mc_pass_rows *pass, int layer) {
    return pass->caches[0]->plan.places[layer];
}

/* Of all rows, or of one of them, of which the states are not together. */
static mc_attended append_at(const mc_pass_rows *pass, size_t row, mica_scope *s, int layer,
                             mica_array k, mica_array v) {
    mc_state *room[MC_MAX_ROWS];
    mc_place at = place_of(pass, layer);
    mc_state_rows rows = list_rows(pass, at.state, row, room);
    return kind_of(pass, at.state)->append(rows, s, at.slot, k, v);
}

static mc_attended append(void *context, mica_scope *s, int layer, mica_array k, mica_array v) {
    const recording *r = context;
    return append_at(r->pass, 0, s, layer, k, v);
}

static mc_attended append_row(void *context, mica_scope *s, int layer, mica_array k, mica_array v) {
    const row_store *row = context;
    return append_at(row->pass, row->row, s, layer, k, v);
}

static bool together(const void *context, int layer) {
    const recording *r = context;
    return kind_of(r->pass, place_of(r->pass, layer).state)->together;
}

static mica_array before(void *context, mica_scope *s, int layer, int i) {
    const mc_pass_rows *pass = ((const recording *)context)->pass;
    int at = place_of(pass, layer).state;
    mica_array rows[MC_MAX_ROWS];
    for (size_t b = 0; b < pass->rows; b++)
        rows[b] = kind_of(pass, at)->before(pass->caches[b]->states[at], s, i);
    return pass->rows == 1 ? rows[0] : mica_concatenate(s, rows, (int)pass->rows, 0);
}

static void after(void *context, mica_scope *s, int layer, int i, mica_array next) {
    const mc_pass_rows *pass = ((const recording *)context)->pass;
    int at = place_of(pass, layer).state;
    for (int64_t b = 0; b < (int64_t)pass->rows; b++) {
        mica_array row = pass->rows == 1 ? next : mica_slice_axis(s, next, 0, b, b + 1);
        kind_of(pass, at)->after(pass->caches[b]->states[at], s, i, row);
    }
}

static void observe(void *context, int layer, mica_array q, mica_array k) {
    const recording *r = context;
    for (size_t i = 0; i < r->pass->wish.n_layers; i++)
        if (r->pass->wish.layers[i] == layer) {
            r->layers[2 * i] = q;
            r->layers[2 * i + 1] = k;
        }
}

/* The store of the pass, valid as long as `r`. */
static mc_kv_store begin(recording *r, const mc_pass_rows *pass) {
    mc_state *room[MC_MAX_ROWS];
    r->pass = pass;
    for (int i = 0; i < count_states(pass); i++)
        for (size_t k = 0; k < count_lists(pass, i); k++)
            kind_of(pass, i)->begin(list_rows(pass, i, k, room));
    for (size_t b = 0; b < pass->rows && pass->rows > 1; b++) {
        r->rows[b] = (row_store){pass, b};
        r->stores[b] = (mc_kv_store){.append = append_row, .context = &r->rows[b]};
    }
    return (mc_kv_store){.append = append,
                         .context = r,
                         .rows = pass->rows > 1 ? r->stores : NULL,
                         .together = together,
                         .before = before,
                         .after = after,
                         .observe = pass->wish.n_layers ? observe : NULL,
                         .observer = r};
}

/* ---- what is wished ---- */

static bool wants_logits(const mc_session_wish *wish) {
    return wish->wanted != MC_NO_LOGITS && (!wish->best || wish->both);
}

size_t mc_session_wish_count(const mc_session_wish *wish) {
    if (wish->wanted == MC_NO_LOGITS) return 0;
    return (wish->best ? (size_t)MC_BEST_ARRAYS + (wish->fence != NULL) : 0u) + wish->largest +
           wants_logits(wish);
}

static void record_wanted(mica_scope *s, const mc_session_wish *wish, mica_array forward,
                          mica_array *results) {
    if (wish->wanted == MC_NO_LOGITS) return;
    if (wish->best) mc_best_record(s, forward, results);
    if (wish->best && wish->fence) results[MC_BEST_ARRAYS] = mica_astype(s, results[0], MICA_I32);
    results += wish->best ? MC_BEST_ARRAYS + (wish->fence != NULL) : 0;
    if (wish->largest) *results++ = mc_largest_record(s, forward);
    if (wants_logits(wish)) *results = forward;
}

/* ---- programs ---- */

/* Results that nobody reads: of a stage of a pipeline, that it has taken and passed on. */
static size_t count_signs(const mc_pass_rows *pass) {
    return pass->lm->stages && pass->wish.wanted == MC_NO_LOGITS;
}

static size_t count_results(const mc_pass_rows *pass) {
    return count_state_results(pass) + count_signs(pass) + mc_session_wish_count(&pass->wish) +
           2 * pass->wish.n_layers;
}

/* The parameters and results of the states, of the pass that was recorded. */
static void list_ports(const mc_pass_rows *pass, mica_param *params, mica_array *results) {
    mc_state *room[MC_MAX_ROWS];
    for (int i = 0; i < count_states(pass); i++)
        for (size_t k = 0; k < count_lists(pass, i); k++) {
            mc_state_rows rows = list_rows(pass, i, k, room);
            kind_of(pass, i)->params(rows, params);
            kind_of(pass, i)->results(rows, results);
            params += kind_of(pass, i)->param_count(room[0]);
            results += kind_of(pass, i)->result_count(room[0]);
        }
}

/* The logits [rows, 1, vocab] of elements `ends` i32 [rows] of all tokens. */
static mica_array logits_at(mica_scope *s, const mc_lm *lm, mica_array hidden, mica_array ends) {
    mica_array rows = mica_take(s, mica_flatten(s, hidden, 0, 1), ends, 0);
    return mc_lm_head(s, lm, mica_expand_dims(s, rows, 1));
}

static mica_status record(mc_passes *passes, const mc_pass_rows *pass, mica_program **program) {
    mica_scope *s = passes->recording;
    const int64_t rows = (int64_t)pass->rows, shape[] = {rows, pass->n};
    size_t n_params = count_own_params(pass) + count_state_params(pass),
           n_results = count_results(pass);
    recording *r = mc_arena_alloc(&passes->arena, sizeof *r);
    mica_param *params = mc_arena_alloc(&passes->arena, n_params * sizeof *params);
    mica_array *results = mc_arena_calloc(&passes->arena, n_results * sizeof *results);
    if (!r || !params || !results) return mc_fail_nomem("a pass");
    mica_array *sign = results + count_state_results(pass), *wanted = sign + count_signs(pass);
    r->layers = wanted + mc_session_wish_count(&pass->wish);
    mc_kv_store store = begin(r, pass);
    mica_array ids = mica_program_param(s, MICA_I32, shape, 2);
    mica_array positions = mica_program_param(s, MICA_I32, &rows, rows > 1);
    mica_array forward = mc_lm_forward(s, pass->lm, ids, positions, pass->caches[0] ? &store : NULL,
                                       pass->wish.ends ? MC_HIDDEN : pass->wish.wanted);
    if (pass->wish.ends) {
        mica_array ends = mica_program_param(s, MICA_I32, &rows, 1);
        params[2] = (mica_param){.name = "ends", .array = ends};
        forward = logits_at(s, pass->lm, forward, ends);
    }
    if (count_signs(pass)) *sign = forward;
    record_wanted(s, &pass->wish, forward, wanted);
    MC_TRY(mica_scope_status(s));
    params[0] = (mica_param){.name = "ids", .array = ids};
    params[1] = (mica_param){.name = rows > 1 ? "positions" : "position", .array = positions};
    list_ports(pass, params + count_own_params(pass), results);
    return mica_program_build(s, params, n_params, results, n_results, NULL, program);
}

static mica_status build(mc_passes *passes, const mc_pass_rows *pass, mica_program **program) {
    mica_status status = record(passes, pass, program);
    mc_scope_reset(passes->recording);
    return status;
}

/* Finds or builds the program of a pass, which is then the first of the list. */
static mica_status find_program(mc_passes *passes, const mc_pass_rows *pass) {
    const mc_session_wish *wish = &pass->wish;
    const mc_pass_key key = {.rows = pass->rows,
                             .n = pass->n,
                             .shape = shape_of(pass),
                             .wanted = wish->wanted,
                             .best = wish->best,
                             .largest = wish->largest,
                             .both = wish->both,
                             .ends = wish->ends,
                             .launched = wish->fence != NULL};
    if (mc_pass_find(passes->programs, passes->n_programs, &key)) return MICA_OK;
    return build(passes, pass, &passes->programs[0].program);
}

/* ---- running ---- */

static mica_status list_args(const mc_passes *passes, const mc_pass_rows *pass, mica_array ids,
                             mica_array *args) {
    mica_scope *s = passes->scope;
    const int64_t n = (int64_t)pass->rows;
    int32_t positions[MC_MAX_ROWS];
    mc_state *room[MC_MAX_ROWS];
    for (size_t b = 0; b < pass->rows; b++)
        positions[b] = (int32_t)pass->positions[b];
    *args++ = ids;
    *args++ = n > 1 ? mica_from_data(s, positions, MICA_I32, &n, 1) : mica_i32(s, positions[0]);
    for (int64_t b = 0; b < n && pass->wish.ends; b++)
        positions[b] = (int32_t)(b * pass->n + pass->ends[b]);
    if (pass->wish.ends) *args++ = mica_from_data(s, positions, MICA_I32, &n, 1);
    for (int i = 0; i < count_states(pass); i++)
        for (size_t k = 0; k < count_lists(pass, i); k++) {
            kind_of(pass, i)->args(list_rows(pass, i, k, room), s, pass->n, args);
            args += kind_of(pass, i)->param_count(room[0]);
        }
    return mica_scope_status(s);
}

/* Gives the states what a run left of them. */
static mica_status hand_back(const mc_pass_rows *pass, const mica_array *results) {
    for (int i = 0; i < count_states(pass); i++)
        for (size_t k = 0; k < count_lists(pass, i); k++) {
            mc_state *state = pass->caches[k]->states[i];
            MC_TRY(state->kind->take(state, pass->homes[k], results));
            results += state->kind->result_count(state);
        }
    return MICA_OK;
}

/* Runs a program, or launches it. The arrays of a pool, which others use, stay if a run fails. */
static mica_status run_or_launch(const mc_passes *passes, const mc_pass_rows *pass,
                                 const mica_program *program, const mica_array *args,
                                 mica_array *results) {
    mica_scope *s = passes->scope;
    if (pass->wish.fence) return mc_program_launch(program, s, args, results, pass->wish.fence);
    if (pass->caches[0] && pass->caches[0]->plan.together)
        return mc_program_run_kept(program, s, args, results);
    return mica_program_run(program, s, args, results);
}

static mica_status run_program(mc_passes *passes, const mc_pass_rows *pass,
                               const mica_program *program, mica_array ids, mica_array *results) {
    size_t unread = count_state_results(pass) + count_signs(pass), n_results = count_results(pass);
    size_t n_args = count_own_params(pass) + count_state_params(pass);
    mica_array *args = mc_arena_alloc(&passes->arena, n_args * sizeof *args);
    mica_array *all = mc_arena_alloc(&passes->arena, n_results * sizeof *all);
    if (!args || !all) return mc_fail_nomem("a pass");
    MC_TRY(list_args(passes, pass, ids, args));
    MC_TRY(run_or_launch(passes, pass, program, args, all));
    mica_status status = hand_back(pass, all);
    if (status != MICA_OK && pass->wish.fence) {
        status = mc_device_wait_after(mica_scope_device(passes->scope), *pass->wish.fence, status);
        *pass->wish.fence = 0;
    }
    MC_TRY(status);
    for (size_t i = unread; i < n_results; i++) /* there may be none, and nowhere to put them */
        results[i - unread] = all[i];
    return MICA_OK;
}

static mica_status compute(mc_passes *passes, const mc_pass_rows *pass, mica_array ids,
                           mica_array *results) {
    mica_program *once = NULL; /* one that gives layers' queries and keys is not kept */
    mc_arena_reset(&passes->arena);
    if (!pass->wish.n_layers) {
        MC_TRY(find_program(passes, pass));
        return run_program(passes, pass, passes->programs[0].program, ids, results);
    }
    mica_status status = build(passes, pass, &once);
    if (status == MICA_OK) status = run_program(passes, pass, once, ids, results);
    mica_program_close(&once);
    return status;
}

/* A rank that fails has not met the others: they wait for it. */
mica_status mc_pass_compute(mc_passes *passes, const mc_pass_rows *pass, mica_array ids,
                            mica_array *results) {
    MC_TRY(mc_lead_send(passes->lead));
    mica_status status = mc_group_end_on(pass->lm->group, compute(passes, pass, ids, results));
    if (status != MICA_OK && passes->lead) return mc_team_break(mc_lead_team(passes->lead), status);
    return status;
}

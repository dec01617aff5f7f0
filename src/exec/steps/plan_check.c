/* The verifier of plans. */
#include "base/alloc.h"
#include "exec/steps/plan.h"
#include "graph/graph.h"

typedef struct checking {
    const mc_plan *p;
    uint32_t *made; /* [n_values] the step after the one that makes it; 0: none does */
    uint32_t *end;  /* [n_roots] the last step that runs with one that touches it */
} checking;

static mica_status wrong(const mc_plan *p, uint32_t step, const char *what) {
    return mc_fail(MICA_EINTERNAL, "a plan: step %u, %s, %s", step,
                   mc_op_get(p->steps[step].op)->name, what);
}

/* The last step of the span that step i is in. */
static uint32_t end_of_span(const mc_plan *p, uint32_t i) {
    while (i + 1 < p->n_steps && p->steps[i + 1].span == 0)
        i++;
    return i;
}

/* Whether a value lies in a root that a step writes, so that it has to be made. */
static bool is_written(const mc_plan *p, uint32_t value) {
    mc_root_kind kind = p->roots[p->values[value].root].kind;
    return kind == MC_ROOT_TEMP || kind == MC_ROOT_OWN;
}

static mica_status check_step(checking *c, uint32_t i, bool *root_made) {
    const mc_plan *p = c->p;
    const mc_step *step = &p->steps[i];
    if (!step->kernel && step->span > 0) return wrong(p, i, "has no kernel");
    for (uint32_t k = 0; k < step->n_in; k++) {
        if (step->in[k] == MC_ABSENT) continue;
        uint32_t root = p->values[step->in[k]].root;
        const mc_root *r = &p->roots[root];
        bool given = r->kind == MC_ROOT_OWN && r->index != MC_ABSENT; /* a parameter, taken over */
        if (is_written(p, step->in[k]) && !given && !root_made[root] &&
            mc_layout_size(&p->values[step->in[k]].layout) > 0)
            return wrong(p, i, "reads what no step before it makes");
        c->end[root] = end_of_span(p, i);
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        uint32_t value = step->out + k;
        if (c->made[value]) return wrong(p, i, "makes what another one makes");
        if (!is_written(p, value)) return wrong(p, i, "writes what is not the plan's");
        c->made[value] = i + 1;
        root_made[p->values[value].root] = true;
        c->end[p->values[value].root] = end_of_span(p, i);
    }
    return MICA_OK;
}

/* Whether two roots lie apart in the block of temporaries. */
static bool are_apart(const mc_root *a, const mc_root *b) {
    return a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

/* What steps make lies apart from all that lives then. */
static mica_status check_places(const checking *c, const uint32_t *begin) {
    const mc_plan *p = c->p;
    for (uint32_t i = 0; i < p->n_roots; i++) {
        const mc_root *a = &p->roots[i];
        if (!a->placed || begin[i] == 0) continue;
        if (a->offset < 0 || a->offset + a->bytes > p->temp_bytes)
            return wrong(p, begin[i] - 1, "writes outside of the temporaries");
        for (uint32_t j = 0; j < i; j++) {
            const mc_root *b = &p->roots[j];
            if (!b->placed || begin[j] == 0) continue;
            bool together = begin[i] - 1 <= c->end[j] && begin[j] - 1 <= c->end[i];
            if (together && !are_apart(a, b))
                return wrong(p, begin[i] - 1, "writes over what is still needed");
        }
    }
    return MICA_OK;
}

static mica_status check(checking *c, bool *root_made, uint32_t *begin) {
    const mc_plan *p = c->p;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        MC_TRY(check_step(c, i, root_made));
        for (uint32_t k = 0; k < p->steps[i].n_out; k++) {
            uint32_t root = p->values[p->steps[i].out + k].root;
            if (begin[root] == 0) begin[root] = i + 1;
        }
    }
    for (uint32_t i = 0; i < p->n_steps; i += p->steps[i].span)
        if (p->steps[i].span == 0) return wrong(p, i, "belongs to no span");
    return check_places(c, begin);
}

mica_status mc_plan_verify(const mc_plan *plan) {
    uint32_t *lists = mc_calloc(plan->n_values + 2 * (size_t)plan->n_roots + 1, sizeof *lists);
    bool *root_made = mc_calloc(plan->n_roots + 1, sizeof *root_made);
    checking c = {.p = plan, .made = lists, .end = lists ? lists + plan->n_values : NULL};
    mica_status status = lists && root_made ? check(&c, root_made, c.end + plan->n_roots)
                                            : mc_fail_nomem("checking a plan");
    mc_free(lists);
    mc_free(root_made);
    return status;
}

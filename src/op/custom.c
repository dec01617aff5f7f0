/* The op that stands for those of the application. */
#include "graph/custom.h"

#include <mica/grad.h>

#include <string.h>

#include "op/build.h"
#include "op/gradient.h"

static mica_status custom_infer(const void *attr, const mc_layout *const *in, int n_in,
                                mc_layout *out) {
    const mc_attr_custom *a = attr;
    mica_shape shapes[MICA_CUSTOM_OPERANDS], result = {0};
    const mica_custom_op *op;
    MC_TRY(mc_custom_find(a, &op));
    if (a->n < 0 || a->n > MICA_CUSTOM_NUMBERS)
        return mc_fail(MICA_EINVAL, "custom: %lld numbers", (long long)a->n);
    for (int i = 0; i < n_in; i++)
        shapes[i] = mc_custom_shape(in[i]);
    mica_status status = op->infer(op->user, a->numbers, (int)a->n, shapes, n_in, &result);
    if (status != MICA_OK) return mc_custom_failed(op, status, "infer");
    if ((int)result.dtype < 0 || (int)result.dtype >= MICA_DTYPE_COUNT)
        return mc_fail(MICA_EDTYPE, "custom op \"%s\": its infer gave the dtype %d", op->name,
                       (int)result.dtype);
    return mc_set_result("custom", out, result.dtype, result.shape, result.ndim);
}

MC_OP(custom, 1, MICA_CUSTOM_OPERANDS, .variadic = true, .acts = true, MC_ATTR(custom),
      .infer = custom_infer);

static bool custom_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    const mc_attr_custom *a = n->attr;
    const mica_custom_op *op;
    mica_array all[MICA_CUSTOM_OPERANDS] = {MICA_NONE};
    if (mc_scope_set_status(n->s, mc_custom_find(a, &op)) != MICA_OK) return true;
    if (!op->vjp) {
        mc_scope_fail(n->s, MICA_EUNSUPPORTED, "custom op \"%s\" has no vjp", op->name);
        return true;
    }
    mica_status status =
        op->vjp(op->user, n->s, a->numbers, (int)a->n, n->in, n->n_in, n->out[0], *dy, all);
    if (status != MICA_OK) mc_scope_set_status(n->s, mc_custom_failed(op, status, "vjp"));
    for (int i = 0; i < n->n_in; i++)
        if (n->wanted[i]) dx[i] = all[i];
    return true;
}

/* The vjp is linear in dy: with g = vjp(v), the tangent is the gradient of sum(g dx) by v. */
static bool custom_jvp(const mc_gradient_node *n, const mica_array *dx, mica_array *dy) {
    mica_scope *s = n->s;
    mica_array g[MICA_CUSTOM_OPERANDS] = {MICA_NONE}, v = mc_zeros_like(s, n->out[0]);
    mica_array sum = mica_f32(s, 0);
    bool wanted[MICA_CUSTOM_OPERANDS];
    mc_gradient_node all = *n;
    for (int i = 0; i < n->n_in; i++)
        wanted[i] = dx[i].scope;
    all.wanted = wanted;
    v = mc_record(s, MC_OP_IDENTITY, NULL, &v, 1);
    if (!custom_vjp(&all, &v, g)) return false;
    for (int i = 0; i < n->n_in; i++) {
        if (!g[i].scope) continue;
        mica_array part = mica_multiply(s, mc_wide(s, g[i]), mc_wide(s, dx[i]));
        sum = mica_add(s, sum, mica_sum(s, part, NULL, 0, false));
    }
    mica_status status = mica_grad(s, sum, MICA_NONE, &v, 1, dy);
    if (status != MICA_OK) mc_scope_set_status(s, status);
    return true;
}
MC_GRADIENT(custom, custom_vjp, custom_jvp);

mica_array mica_custom(mica_scope *s, const char *name, const int64_t *numbers, int n_numbers,
                       const mica_array *in, int n) {
    if (!name || n < 1 || n > MICA_CUSTOM_OPERANDS || !in || n_numbers < 0 ||
        n_numbers > MICA_CUSTOM_NUMBERS || (n_numbers > 0 && !numbers))
        return mc_scope_fail(s, MICA_EINVAL,
                             "custom: a name, 1 to %d operands and 0 to %d numbers are needed",
                             MICA_CUSTOM_OPERANDS, MICA_CUSTOM_NUMBERS);
    if (!mc_operands_ok(s, "custom", in, n)) return mc_invalid(s);
    mc_attr_custom attr = {.op = mc_custom_id(name), .n = n_numbers};
    if (n_numbers > 0) memcpy(attr.numbers, numbers, (size_t)n_numbers * sizeof *numbers);
    if (!mc_custom_is_known(name))
        return mc_scope_fail(s, MICA_EINVAL, "custom: there is no op \"%s\"; register it", name);
    return mc_record(s, MC_OP_CUSTOM, &attr, in, n);
}

/* einsum: an equation of letters, as diagonals, sums and products of two operands at a time. */
#include <mica/ops.h>

#include <string.h>

#include "op/build.h"

/* What an axis is called: a letter, or a place of the ellipsis, counted from its end. */
enum { LETTERS = 52, LABELS = LETTERS + MICA_MAX_NDIM, MAX_OPERANDS = 32 };

/* Axes by their labels. */
typedef struct labels {
    int n;
    signed char at[2 * MICA_MAX_NDIM];
} labels;

typedef struct term {
    mica_array x;
    labels axes;
} term;

typedef struct equation {
    mica_scope *s;
    const char *text;
    int64_t length[LABELS]; /* -1: nothing has it */
    int ellipsis;           /* the most axes that one stands for */
    labels out;
} equation;

static bool refuse(equation *e, mica_status status, const char *why) {
    mc_scope_fail(e->s, status, "einsum: \"%s\": %s", e->text, why);
    return false;
}

static int find_label(const labels *l, int label) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i] == label) return i;
    return -1;
}

static void drop(labels *l, int i) {
    l->n--;
    memmove(l->at + i, l->at + i + 1, (size_t)(l->n - i));
}

static int label_of(char c) {
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1;
}

/* ---- reading the equation ---- */

/* Reads the labels up to a comma, an arrow or the end. ellipsis: axes that "..." stands for, -1 as
 * many as `room` leaves beside the letters. */
static bool read_labels(equation *e, const char **p, int room, int ellipsis, labels *out,
                        bool *has_ellipsis) {
    const char *end = *p + strcspn(*p, ",-");
    int letters = 0;
    for (const char *c = *p; c < end; c++)
        letters += label_of(*c) >= 0;
    *out = (labels){0};
    *has_ellipsis = false;
    for (const char *c = *p; c < end; c++) {
        if (*c == ' ') continue;
        if (label_of(*c) >= 0) {
            if (out->n >= MICA_MAX_NDIM) return refuse(e, MICA_EINVAL, "too many axes");
            out->at[out->n++] = (signed char)label_of(*c);
            continue;
        }
        if (*has_ellipsis || end - c < 3 || memcmp(c, "...", 3) != 0)
            return refuse(e, MICA_EINVAL, "letters, \"...\", \",\" and \"->\" are possible");
        *has_ellipsis = true;
        c += 2;
        int n = ellipsis < 0 ? room - letters : ellipsis;
        if (n < 0 || out->n + n > MICA_MAX_NDIM)
            return refuse(e, MICA_EINVAL, "an operand or the result has another number of axes");
        for (int k = n; k > 0; k--)
            out->at[out->n++] = (signed char)(LETTERS + k - 1);
        if (n > e->ellipsis) e->ellipsis = n;
    }
    *p = end;
    return true;
}

static bool read_operand(equation *e, const char **p, mica_array x, term *t) {
    const mc_layout *l = mc_layout_of(x);
    bool has_ellipsis;
    *t = (term){.x = x};
    if (!read_labels(e, p, l->ndim, -1, &t->axes, &has_ellipsis)) return false;
    if (t->axes.n != l->ndim)
        return refuse(e, MICA_EINVAL, "an operand has another number of axes");
    for (int k = 0; k < l->ndim; k++) {
        int64_t *length = &e->length[t->axes.at[k]];
        if (*length < 0 || *length == 1) *length = l->shape[k];
        if (l->shape[k] != *length && l->shape[k] != 1)
            return refuse(e, MICA_ESHAPE, "axes of one letter have other lengths");
    }
    return true;
}

/* Without an arrow: the ellipsis, then the letters that are there once, by the alphabet. */
static bool implicit_out(equation *e, const term *terms, int n) {
    int count[LABELS] = {0};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < terms[i].axes.n; k++)
            count[(int)terms[i].axes.at[k]]++;
    e->out = (labels){0};
    for (int k = e->ellipsis; k > 0; k--)
        e->out.at[e->out.n++] = (signed char)(LETTERS + k - 1);
    for (int label = 0; label < LETTERS; label++) {
        if (count[label] != 1) continue;
        if (e->out.n >= MICA_MAX_NDIM)
            return refuse(e, MICA_ESHAPE, "the result has too many axes");
        e->out.at[e->out.n++] = (signed char)label;
    }
    return true;
}

static bool read_out(equation *e, const char *p, const term *terms, int n) {
    bool has_ellipsis;
    if (!*p) return implicit_out(e, terms, n);
    if (strncmp(p, "->", 2) != 0) return refuse(e, MICA_EINVAL, "a \"-\" without \">\"");
    p += 2;
    if (!read_labels(e, &p, 0, e->ellipsis, &e->out, &has_ellipsis)) return false;
    if (*p) return refuse(e, MICA_EINVAL, "the result is one array");
    if (e->ellipsis > 0 && !has_ellipsis)
        return refuse(e, MICA_EINVAL, "the result lacks the \"...\" of the operands");
    for (int k = 0; k < e->out.n; k++) {
        if (e->length[(int)e->out.at[k]] < 0)
            return refuse(e, MICA_EINVAL, "a letter of the result is in no operand");
        if (find_label(&e->out, e->out.at[k]) != k)
            return refuse(e, MICA_EINVAL, "a letter is twice in the result");
    }
    return true;
}

static bool read(equation *e, const mica_array *xs, int n, term *terms) {
    const char *p = e->text;
    for (int label = 0; label < LABELS; label++)
        e->length[label] = -1;
    for (int i = 0; i < n; i++) {
        if (i > 0 && *p++ != ',')
            return refuse(e, MICA_EINVAL, "there are more operands than terms");
        if (!read_operand(e, &p, xs[i], &terms[i])) return false;
    }
    if (*p == ',') return refuse(e, MICA_EINVAL, "there are more terms than operands");
    return read_out(e, p, terms, n);
}

/* ---- one operand ---- */

/* Axes of one label become their diagonal; those of length 1 that are longer elsewhere go. */
static void tidy(const equation *e, term *t) {
    mica_scope *s = e->s;
    for (int i = 0; i < t->axes.n; i++)
        for (int k = i + 1; k < t->axes.n; k++) {
            signed char label = t->axes.at[i];
            if (t->axes.at[k] != label) continue;
            if (mica_array_dim(t->x, i) != mica_array_dim(t->x, k)) { /* one of them is 1 */
                int one = mica_array_dim(t->x, i) == 1 ? i : k;
                t->x = mica_squeeze(s, t->x, one);
                drop(&t->axes, one);
            } else {
                t->x = mica_diagonal(s, t->x, 0, i, k); /* which is the last axis */
                drop(&t->axes, k);
                drop(&t->axes, i);
                t->axes.at[t->axes.n++] = label;
            }
            i = -1;
            break;
        }
    for (int k = t->axes.n - 1; k >= 0; k--) {
        if (mica_array_dim(t->x, k) == e->length[(int)t->axes.at[k]]) continue;
        t->x = mica_squeeze(s, t->x, k);
        drop(&t->axes, k);
    }
}

static bool is_elsewhere(const term *terms, int n, int but, int label) {
    for (int i = 0; i < n; i++)
        if (i != but && find_label(&terms[i].axes, label) >= 0) return true;
    return false;
}

/* Sums the axes that nothing else has. */
static void sum_out(const equation *e, term *terms, int n, int i) {
    int axes[MICA_MAX_NDIM], n_axes = 0;
    labels kept = {0};
    for (int k = 0; k < terms[i].axes.n; k++) {
        signed char label = terms[i].axes.at[k];
        if (find_label(&e->out, label) < 0 && !is_elsewhere(terms, n, i, label))
            axes[n_axes++] = k;
        else
            kept.at[kept.n++] = label;
    }
    if (n_axes == 0) return;
    terms[i].x = mica_sum(e->s, terms[i].x, axes, n_axes, false);
    terms[i].axes = kept;
}

/* ---- two operands ---- */

/* a and b become a; the terms `later` come after them. */
static void multiply(const equation *e, term *a, const term *b, const term *later, int n_later) {
    int batch[2][MICA_MAX_NDIM], contract[2][MICA_MAX_NDIM];
    mica_dot_axes p = {batch[0], batch[1], 0, contract[0], contract[1], 0};
    labels result = {0}, free[2] = {{0}, {0}};
    for (int k = 0; k < a->axes.n; k++) {
        signed char label = a->axes.at[k];
        int at = find_label(&b->axes, label);
        bool stays = find_label(&e->out, label) >= 0 || is_elsewhere(later, n_later, -1, label);
        if (at < 0) {
            free[0].at[free[0].n++] = label;
        } else if (stays) {
            batch[0][p.n_batch] = k;
            batch[1][p.n_batch++] = at;
            result.at[result.n++] = label;
        } else {
            contract[0][p.n_contract] = k;
            contract[1][p.n_contract++] = at;
        }
    }
    for (int k = 0; k < b->axes.n; k++)
        if (find_label(&a->axes, b->axes.at[k]) < 0) free[1].at[free[1].n++] = b->axes.at[k];
    a->x = mica_dot_general(e->s, a->x, b->x, &p);
    if (!mica_valid(a->x)) return; /* too many axes for labels, too */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < free[i].n; k++)
            result.at[result.n++] = free[i].at[k];
    a->axes = result;
}

static mica_array evaluate(equation *e, term *terms, int n) {
    for (int i = 0; i < n; i++)
        tidy(e, &terms[i]);
    for (int i = 0; i < n; i++)
        sum_out(e, terms, n, i);
    for (int i = 1; i < n; i++) {
        multiply(e, &terms[0], &terms[i], terms + i + 1, n - i - 1);
        if (!mica_valid(terms[0].x)) return mc_invalid(e->s);
    }
    int order[MICA_MAX_NDIM];
    for (int k = 0; k < e->out.n; k++)
        order[k] = find_label(&terms[0].axes, e->out.at[k]);
    return mica_transpose(e->s, terms[0].x, order);
}

mica_array mica_einsum(mica_scope *s, const char *text, const mica_array *xs, int n) {
    if (!text || n < 1 || n > MAX_OPERANDS || !xs)
        return mc_scope_fail(s, MICA_EINVAL, "einsum: an equation and 1 to %d operands are needed",
                             MAX_OPERANDS);
    if (!mc_operands_ok(s, "einsum", xs, n)) return mc_invalid(s);
    equation e = {.s = s, .text = text};
    term terms[MAX_OPERANDS];
    if (!read(&e, xs, n, terms)) return mc_invalid(s);
    return evaluate(&e, terms, n);
}

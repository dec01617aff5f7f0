/* The golden runner: compares every record of $MICA_FIXTURES/ops/<group>.json with the op that it
 * names.
 *
 * A group is a table of rows in golden_<group>.c and a row of golden_list.h. A row's function
 * builds the result from the record's inputs and arguments; the runner evaluates it and compares.
 *
 *     static bool run_take(golden *g) {
 *         g->out[0] = mica_take(g->s, golden_in(g, "a"), golden_in(g, "i"), axis);
 *         return true;
 *     }
 *     static const golden_row rows[] = {{.op = "take", .run = run_take}};
 *     const golden_group golden_index = {"index", rows, sizeof rows / sizeof *rows, NULL};
 *
 * A record fails if its op has no row, or its dtype is none of mica's, unless golden_wanted_list.h
 * names what it needs: then it is skipped. */
#ifndef OP_GOLDEN_H
#define OP_GOLDEN_H

#include <mica/mica.h>

#include "base/json.h"
#include "support/support.h"

#define GOLDEN_MAX 20

typedef struct golden {
    const char *name; /* "add.3" */
    const char *op;   /* "add" */
    const char *note; /* "": the record has none */
    mica_scope *s;
    mc_json args;
    int n_in;
    char in_name[GOLDEN_MAX][32];
    mica_array in[GOLDEN_MAX];
    int n_out; /* in the file */
    mica_array want[GOLDEN_MAX];
    mica_array out[GOLDEN_MAX]; /* set by the row's function */

    /* Tolerances. The runner sets those of fixtures/README.md; a row's function may change them.
     * f32: relative * |want| + absolute, or with by_row relative * max(|want| along the last axis)
     * + absolute. f16 and bf16 are always compared by row. */
    double relative;
    double absolute;
    bool by_row;
    double half_factor; /* factor of the tolerance of f16 and bf16; 0: 1 */
    int ulps; /* > 0: f16 and bf16 may be off by that many units in the last place instead */
} golden;

typedef struct golden_row {
    const char *op;
    /* Sets g->out. false: mica does not have these arguments (counted as skipped). */
    bool (*run)(golden *g);
    double relative; /* tolerance of f32; 0: 1e-5 */
    /* If not NULL, replaces the comparison of output i, and reports differences (print_error). */
    bool (*check)(golden *g, int i);
} golden_row;

typedef struct golden_count {
    int passed, skipped, failed;
} golden_count;

typedef struct golden_group {
    const char *name;
    const golden_row *rows;
    size_t n_rows;
    /* Reads a file without a list of cases; NULL for other files. */
    void (*whole)(mica_device *device, mc_json root, golden_count *count);
} golden_group;

#define GROUP(name) extern const golden_group golden_##name;
#include "op/golden_list.h"

/* Counts a record whose op or dtype is not there: as skipped if golden_wanted_list.h names it, else
 * as failed, with a message. */
void golden_lacks(const char *group, const char *op, const char *record, golden_count *count);

/* Sets out to y, then to the gradients of sum(y * dy) by the float inputs but dy; the tolerance of
 * f32 is by row. Returns true. */
bool golden_differentiate(golden *g, mica_array y, double relative);

/* Output i, which is there from the rule of mica_grad, by another name: false, with a message,
 * unless both agree. */
bool golden_is_also(golden *g, int i, mica_array other);

/* The input of that name; MICA_NONE if the record has none. */
mica_array golden_in(const golden *g, const char *name);

/* Integer arguments; `otherwise` if absent or null. */
int64_t golden_int(const golden *g, const char *key, int64_t otherwise);
double golden_float(const golden *g, const char *key, double otherwise);
bool golden_bool(const golden *g, const char *key, bool otherwise);
/* A list of at most `max` integers, or one integer. Returns the length; -1 if absent or null. */
int golden_ints(const golden *g, const char *key, int64_t *out, int max);
/* Whether the argument is present and not null. */
bool golden_has(const golden *g, const char *key);
/* Copies a string argument to out, cut to 64 bytes. false: it is not a string. */
bool golden_text(const golden *g, const char *key, char out[64]);
/* How a record's weights are quantised: mode, bits and group_size. */
mica_quant golden_quant_of(const golden *g);
mica_dtype golden_dtype(const golden *g, const char *key, mica_dtype otherwise);
/* The dtype of a name in the fixtures ("bf16", "BF16"); false if mica lacks it. */
bool golden_dtype_of(const char *name, mica_dtype *out);

#endif

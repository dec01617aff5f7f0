#include "task/texts.h"

#include "base/alloc.h"
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

mica_status mc_texts_init(mc_texts *texts, const mc_session_model *model) {
    *texts = (mc_texts){.model = model};
    MC_TRY(mica_scope_open(model->device, &texts->scope));
    return mc_passes_init(&texts->passes, texts->scope, texts->programs, MC_TEXT_PROGRAMS);
}

void mc_texts_deinit(mc_texts *texts) {
    mc_pass_close_all(texts->programs, MC_TEXT_PROGRAMS);
    mc_passes_deinit(&texts->passes);
    mica_scope_close(&texts->scope);
}

static int64_t longest(const mc_text *texts, size_t count) {
    int64_t n = 0;
    for (size_t i = 0; i < count; i++)
        n = texts[i].n > n ? texts[i].n : n;
    return n;
}

bool mc_texts_fit(const mc_session_model *model, const mc_text *texts, size_t count) {
    int64_t n = longest(texts, count), rows = (int64_t)count, total = 0;
    if (rows > MC_TEXT_ROWS || n > MC_TEXT_TOKENS || rows * n > MC_PASS_TOKENS) return false;
    if (model->states || model->lm->spec.both_ways || (model->context && n > model->context))
        return false;
    for (size_t i = 0; i < count; i++)
        total += texts[i].n;
    return 4 * (rows * n - total) <= total;
}

mica_status mc_texts_compute(mc_texts *texts, const mc_text *rows, size_t count, mc_wanted wanted,
                             mica_array *result) {
    const int64_t n = longest(rows, count), shape[] = {(int64_t)count, n};
    mc_pass_rows pass = {.lm = texts->model->lm,
                         .rows = count,
                         .n = n,
                         .wish = {.wanted = wanted, .ends = wanted == MC_LAST_LOGITS}};
    int32_t ids[MC_PASS_TOKENS] = {0};
    for (size_t i = 0; i < count; i++) {
        pass.ends[i] = rows[i].n - 1;
        memcpy(ids + (int64_t)i * n, rows[i].ids, (size_t)rows[i].n * sizeof *ids);
    }
    mc_scope_reset(texts->scope);
    return mc_pass_compute(&texts->passes, &pass,
                           mica_from_data(texts->scope, ids, MICA_I32, shape, 2), result);
}

/* ---- groups ---- */

typedef struct numbered {
    mc_text text;
    size_t index;
} numbered;

static int by_length(const void *a, const void *b) {
    const numbered *x = a, *y = b;
    if (x->text.n != y->text.n) return x->text.n < y->text.n ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Calls `group` for the texts in their order here. */
static void divide(const mc_session_model *model, const numbered *all, size_t count,
                   mc_texts_group group, void *context) {
    mc_text texts[MC_TEXT_ROWS + 1];
    size_t indices[MC_TEXT_ROWS + 1];
    for (size_t at = 0, n; at < count; at += n) {
        for (n = 0; at + n < count; n++) {
            texts[n] = all[at + n].text;
            indices[n] = all[at + n].index;
            if (n && !mc_texts_fit(model, texts, n + 1)) break;
        }
        group(context, indices, texts, n);
    }
}

mica_status mc_texts_each(const mc_session_model *model, const mc_text *texts, size_t count,
                          mc_texts_group group, void *context) {
    size_t n = 0;
    numbered *all = mc_array_alloc(count + 1, sizeof *all);
    if (!all) return mc_fail_nomem("texts");
    for (size_t i = 0; i < count; i++)
        if (texts[i].n) all[n++] = (numbered){texts[i], i};
    qsort(all, n, sizeof *all, by_length);
    divide(model, all, n, group, context);
    mc_free(all);
    return MICA_OK;
}

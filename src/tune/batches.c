#include "tune/batches.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAD_TO = 32 };

typedef struct sortable {
    uint32_t text, length;
} sortable;

static int by_length(const void *a, const void *b) {
    const sortable *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->text < y->text ? -1 : x->text > y->text;
}

static uint32_t length_of(const mc_batches *b, uint32_t text) {
    uint32_t n = mc_examples_at(b->examples, text)->length;
    if (!b->pairs) return n;
    uint32_t m = mc_examples_at(b->examples, text + 1)->length;
    return n > m ? n : m;
}

static bool add_row(mc_batches *b, const uint32_t *texts, size_t n) {
    uint32_t start = (uint32_t)(b->rows.len / sizeof *texts);
    return MC_BUFFER_PUSH(&b->starts, uint32_t, start) &&
           mc_buffer_add(&b->rows, texts, n * sizeof *texts);
}

/* Rows of one text each, shortest first. */
static bool make_rows(mc_batches *b, const sortable *sorted, size_t n) {
    bool done = true;
    for (size_t i = 0; i < n && done; i++)
        done = add_row(b, &sorted[i].text, 1);
    return done;
}

/* A row of the texts from `from` on that fit, longest first. taken [n] is set for them. */
static bool fill_row(mc_batches *b, const sortable *sorted, size_t from, bool *taken) {
    int64_t room = b->max_length;
    bool done = add_row(b, NULL, 0);
    for (size_t i = from + 1; i-- > 0 && done && room > 1;) {
        if (taken[i] || (int64_t)sorted[i].length > room) continue;
        taken[i] = true;
        room -= sorted[i].length;
        done = mc_buffer_add(&b->rows, &sorted[i].text, sizeof sorted[i].text);
    }
    return done;
}

/* Rows of texts that fill max_length: the longest that is left, then those that still fit. */
static bool pack_rows(mc_batches *b, const sortable *sorted, size_t n) {
    bool *taken = mc_calloc(n + 1, sizeof *taken), done = taken != NULL;
    for (size_t i = n; i-- > 0 && done;)
        if (!taken[i]) done = fill_row(b, sorted, i, taken);
    mc_free(taken);
    return done;
}

static mica_status sort_rows(mc_batches *b, const uint32_t *texts, size_t n) {
    sortable *sorted = mc_array_alloc(n + 1, sizeof *sorted);
    if (!sorted) return mc_fail_nomem("batches");
    for (size_t i = 0; i < n; i++)
        sorted[i] = (sortable){texts[i], length_of(b, texts[i])};
    qsort(sorted, n, sizeof *sorted, by_length);
    bool done = b->packed ? pack_rows(b, sorted, n) : make_rows(b, sorted, n);
    mc_free(sorted);
    uint32_t end = (uint32_t)(b->rows.len / sizeof end);
    done = done && MC_BUFFER_PUSH(&b->starts, uint32_t, end);
    return done ? MICA_OK : mc_fail_nomem("batches");
}

static size_t row_count(const mc_batches *b) {
    return MC_BUFFER_COUNT(&b->starts, uint32_t) - 1;
}

static mica_status open_parts(mc_batches *b, const uint32_t *texts, size_t n,
                              const mc_batches_options *o) {
    MC_TRY(sort_rows(b, texts, n));
    size_t rows = row_count(b), size = (size_t)o->batch_size;
    b->count = o->drop_last ? rows / size : (rows + size - 1) / size;
    if (!b->count)
        return mc_fail(MICA_EINVAL,
                       "%s: batches take %zu rows, and there are %zu: give a smaller batch_size, "
                       "or more examples",
                       b->examples->path, size, rows);
    b->indices = mc_array_alloc(b->count, sizeof *b->indices);
    if (!b->indices) return mc_fail_nomem("batches");
    for (size_t i = 0; i < b->count; i++)
        b->indices[i] = (uint32_t)i;
    mc_order_seed(&b->order, (uint32_t)o->seed);
    b->epoch = o->shuffle ? 0 : UINT64_MAX;
    return MICA_OK;
}

mica_status mc_batches_open(mc_batches *b, const mc_examples *examples, const uint32_t *texts,
                            size_t n, const mc_batches_options *o) {
    *b = (mc_batches){.examples = examples,
                      .per_batch = o->batch_size,
                      .pairs = o->pairs,
                      .packed = o->pack && !o->pairs,
                      .mask_prompt = o->mask_prompt,
                      .max_length = o->max_length};
    mica_status status = open_parts(b, texts, n, o);
    if (status != MICA_OK) mc_batches_close(b);
    return status;
}

void mc_batches_close(mc_batches *b) {
    mc_buffer *const all[] = {&b->rows, &b->starts, &b->ids, &b->mask, &b->seen};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mc_buffer_deinit(all[i]);
    mc_free(b->indices);
    *b = (mc_batches){0};
}

void mc_batches_seek(mc_batches *b, uint64_t next) {
    b->next = next;
}

/* The batch of a number, in the order of its epoch. */
static size_t pick(mc_batches *b, uint64_t number) {
    uint64_t epoch = number / b->count + 1;
    for (; b->epoch < epoch; b->epoch++)
        mc_order_next(&b->order, b->indices, b->count);
    return b->indices[number % b->count];
}

static uint32_t start_of(const mc_batches *b, size_t row) {
    return MC_BUFFER_AT(&b->starts, uint32_t)[row];
}

static int64_t row_length(const mc_batches *b, size_t row) {
    int64_t length = 0;
    for (uint32_t i = start_of(b, row); i < start_of(b, row + 1); i++)
        length += length_of(b, MC_BUFFER_AT(&b->rows, uint32_t)[i]);
    return length;
}

/* The length of rows of up to n tokens: a multiple of 32, and one, but no longer than rows may
 * be. */
static int64_t padded(const mc_batches *b, int64_t n) {
    int64_t length = 1 + PAD_TO * ((n + PAD_TO - 1) / PAD_TO);
    int64_t max = b->max_length > n ? b->max_length : n;
    return length < max ? length : max;
}

int64_t mc_batches_longest(const mc_batches *b) {
    int64_t longest = 0;
    for (size_t i = 0; i < row_count(b); i++)
        if (row_length(b, i) > longest) longest = row_length(b, i);
    return padded(b, longest);
}

/* Writes a text at a place of a row; at most 0 of its tokens are targets of the text before it. */
static mica_status put_text(mc_batches *b, uint32_t text, int32_t *ids, float *mask, int64_t at) {
    const mc_example *x = mc_examples_at(b->examples, text);
    bool masked = b->mask_prompt || b->pairs;
    int64_t first = masked && x->prompt > 1 ? x->prompt : 1;
    MC_TRY(mc_examples_read(b->examples, text, ids + at));
    for (int64_t i = first; i < (int64_t)x->length; i++) {
        mask[at + i - 1] = 1.0f; /* of the token before it */
        b->trained++;
    }
    b->tokens += x->length;
    return MICA_OK;
}

/* Lets the tokens of a text at [at, at + n) of a row see those of the text up to themselves. */
static void see(bool *seen, int64_t inner, int64_t at, int64_t n) {
    for (int64_t i = at; i < at + n && i < inner; i++)
        for (int64_t j = at; j <= i; j++)
            seen[i * inner + j] = true;
}

static mica_status put_row(mc_batches *b, size_t row, int64_t length, int32_t *ids, float *mask,
                           bool *seen) {
    int64_t at = 0;
    for (uint32_t i = start_of(b, row); i < start_of(b, row + 1); i++) {
        uint32_t text = MC_BUFFER_AT(&b->rows, uint32_t)[i];
        int64_t n = mc_examples_at(b->examples, text)->length;
        MC_TRY(put_text(b, text, ids, mask, at));
        if (seen) see(seen, length - 1, at, n);
        at += n;
    }
    if (seen) see(seen, length - 1, at, length - at); /* padding sees itself: no empty softmax */
    return MICA_OK;
}

static bool make_room(mc_buffer *buffer, size_t bytes) {
    mc_buffer_clear(buffer);
    if (!mc_buffer_reserve(buffer, bytes + 1)) return false;
    memset(buffer->data, 0, bytes);
    return true;
}

mica_status mc_batches_next(mc_batches *b, mc_batch *batch) {
    size_t first = pick(b, b->next) * (size_t)b->per_batch, n = row_count(b) - first;
    if (n > (size_t)b->per_batch) n = (size_t)b->per_batch;
    int64_t longest = 0;
    for (size_t i = 0; i < n; i++)
        if (row_length(b, first + i) > longest) longest = row_length(b, first + i);
    int64_t length = padded(b, longest), inner = length - 1;
    size_t rows = b->pairs ? 2 * n : n;
    *batch = (mc_batch){.rows = (int64_t)rows, .length = length};
    b->tokens = b->trained = 0;
    if (!make_room(&b->ids, rows * (size_t)length * sizeof(int32_t)) ||
        !make_room(&b->mask, rows * (size_t)inner * sizeof(float)) ||
        (b->packed && !make_room(&b->seen, rows * (size_t)(inner * inner) * sizeof(bool))))
        return mc_fail_nomem("a batch");
    int32_t *ids = MC_BUFFER_AT(&b->ids, int32_t);
    float *mask = MC_BUFFER_AT(&b->mask, float);
    bool *seen = b->packed ? MC_BUFFER_AT(&b->seen, bool) : NULL;
    for (size_t i = 0; i < n; i++) {
        MC_TRY(put_row(b, first + i, length, ids + (int64_t)i * length, mask + (int64_t)i * inner,
                       seen ? seen + (int64_t)i * inner * inner : NULL));
        if (!b->pairs) continue;
        uint32_t rejected = MC_BUFFER_AT(&b->rows, uint32_t)[start_of(b, first + i)] + 1;
        MC_TRY(put_text(b, rejected, ids + (int64_t)(n + i) * length,
                        mask + (int64_t)(n + i) * inner, 0));
    }
    b->next++;
    batch->ids = ids;
    batch->mask = mask;
    batch->seen = seen;
    return MICA_OK;
}

const char *mc_batches_lines(mc_batches *b, char text[128]) {
    size_t first = pick(b, b->next - 1) * (size_t)b->per_batch, end = first + (size_t)b->per_batch;
    size_t len = 0;
    *text = '\0';
    if (end > row_count(b)) end = row_count(b);
    for (uint32_t i = start_of(b, first); i < start_of(b, end) && len < 100; i++) {
        uint64_t line = mc_examples_at(b->examples, MC_BUFFER_AT(&b->rows, uint32_t)[i])->line;
        len += (size_t)snprintf(text + len, 128 - len, len ? ", %llu" : "%llu",
                                (unsigned long long)line);
    }
    return text;
}

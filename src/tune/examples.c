#include "tune/examples.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/map.h"
#include "tune/conversation.h"
#include "tune/records.h"

#include <errno.h>
#include <string.h>

#define MEMORY_BYTES ((uint64_t)256 << 20)

enum { REPORTED = 8 };

typedef struct reading {
    mc_examples *e;
    const mc_examples_options *options;
    mc_buffer problems; /* lines of text */
    uint64_t bad;
    uint64_t line;
} reading;

size_t mc_examples_count(const mc_examples *e) {
    return MC_BUFFER_COUNT(&e->list, mc_example);
}

const mc_example *mc_examples_at(const mc_examples *e, size_t i) {
    return &MC_BUFFER_AT(&e->list, mc_example)[i];
}

/* ---- ids ---- */

static mica_status spill_ids(mc_examples *e, const int32_t *ids, size_t n) {
    if (!e->spill) e->spill = tmpfile();
    if (!e->spill || fwrite(ids, sizeof *ids, n, e->spill) != n)
        return mc_fail_errno(errno, "%s: a temporary file for its tokens", e->path);
    return MICA_OK;
}

static mica_status keep_ids(reading *r, const int32_t *ids, size_t n) {
    mc_examples *e = r->e;
    uint64_t limit = r->options->memory_bytes ? r->options->memory_bytes : MEMORY_BYTES;
    e->hash = mc_hash(ids, n * sizeof *ids, e->hash);
    e->count += n;
    if (e->spill || e->ids.len + n * sizeof *ids > limit) return spill_ids(e, ids, n);
    return mc_buffer_add(&e->ids, ids, n * sizeof *ids) ? MICA_OK : mc_fail_nomem(e->path);
}

mica_status mc_examples_read(const mc_examples *e, size_t i, int32_t *ids) {
    const mc_example *x = mc_examples_at(e, i);
    uint64_t held = MC_BUFFER_COUNT(&e->ids, int32_t);
    if (x->at < held) {
        memcpy(ids, MC_BUFFER_AT(&e->ids, int32_t) + x->at, x->length * sizeof *ids);
        return MICA_OK;
    }
    if (fseek(e->spill, (long)((x->at - held) * sizeof *ids), SEEK_SET) != 0 ||
        fread(ids, sizeof *ids, x->length, e->spill) != x->length)
        return mc_fail(MICA_EIO, "%s: the temporary file of its tokens cannot be read", e->path);
    return MICA_OK;
}

/* ---- texts ---- */

static mica_status add_text(reading *r, const int32_t *ids, size_t n, size_t prompt) {
    mc_examples *e = r->e;
    mc_example x = {e->count, (uint32_t)n, (uint32_t)prompt, r->line};
    if (!MC_BUFFER_PUSH(&e->list, mc_example, x)) return mc_fail_nomem(e->path);
    return keep_ids(r, ids, n);
}

/* Adds a text, cut or split where it is too long. */
static mica_status add_fitted(reading *r, const mc_text *text) {
    const mc_examples_options *o = r->options;
    size_t max = (size_t)o->max_length, n = text->n, prompt = text->prompt;
    if (n > r->e->longest) r->e->longest = n;
    if (n <= max) return add_text(r, text->ids, n, prompt);
    r->e->cut++;
    if (o->too_long == MICA_TUNE_CUT || o->pairs) return add_text(r, text->ids, max, prompt);
    for (size_t at = 0; at < n;) {
        size_t part = n - at < max ? n - at : max, masked = prompt > at ? prompt - at : 0;
        bool trains = part >= 2 && (!o->need_answer || masked < part);
        if (trains) MC_TRY(add_text(r, text->ids + at, part, masked));
        at += part;
    }
    return MICA_OK;
}

/* Whether a text can be trained with. The reason is an error. */
static mica_status check_text(const reading *r, const mc_text *text) {
    const mc_examples_options *o = r->options;
    size_t max = (size_t)o->max_length, n = text->n;
    if (n < 2) return mc_fail(MICA_EFORMAT, "has %zu tokens: there is nothing to learn", n);
    for (size_t i = 0; i < n; i++)
        if (text->ids[i] < 0 || text->ids[i] >= o->vocab)
            return mc_fail(MICA_EFORMAT, "has the token %d, and the model's vocabulary is %lld",
                           (int)text->ids[i], (long long)o->vocab);
    if (n > max && o->too_long == MICA_TUNE_REFUSE)
        return mc_fail(MICA_EFORMAT, "has %zu tokens, and max_seq_length is %zu", n, max);
    bool whole = n <= max || (o->too_long == MICA_TUNE_SPLIT && !o->pairs);
    size_t end = whole ? n : max;
    if ((o->need_answer || o->pairs) && text->prompt >= end)
        return mc_fail(MICA_EFORMAT,
                       whole ? "has no token behind its prompt of %zu: all labels are masked"
                             : "has a prompt of %zu tokens, which fills max_seq_length: all labels "
                               "are masked",
                       text->prompt);
    return MICA_OK;
}

static mica_status add_line(reading *r, mc_str line) {
    mc_text texts[2] = {{0}, {0}};
    size_t n = 0;
    const mc_examples_options *o = r->options;
    const mc_conversation_options how = {o->prompt, o->chat, &o->keys, o->pairs};
    mica_status status = mc_conversation_read(&how, line, texts, &n);
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        status = check_text(r, &texts[i]);
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        status = add_fitted(r, &texts[i]);
    for (size_t i = 0; i < 2; i++)
        mica_free(texts[i].ids);
    return status;
}

/* Adds tokens that are given. */
static mica_status add_tokens(reading *r, const mica_tune_example *x) {
    const mc_examples_options *o = r->options;
    const mc_text text = {(int32_t *)(uintptr_t)x->ids, x->count, x->prompt}; /* read only */
    if (o->pairs) return mc_fail(MICA_EFORMAT, "is tokens: preferences are given as lines");
    if (!x->ids) return mc_fail(MICA_EFORMAT, "has neither a line nor tokens");
    if (x->count > UINT32_MAX || x->prompt > x->count)
        return mc_fail(MICA_EFORMAT, "has %zu tokens, %zu of its prompt", x->count, x->prompt);
    MC_TRY(check_text(r, &text));
    return add_fitted(r, &text);
}

/* Notes a line that is no example. Other errors are returned. */
static mica_status note_bad(reading *r, mica_status status) {
    bool of_line = status == MICA_EFORMAT || status == MICA_EINVAL || status == MICA_EUNSUPPORTED;
    if (!of_line) return status;
    r->bad++;
    if (r->bad > REPORTED) return MICA_OK;
    bool done = mc_buffer_printf(&r->problems, "%sline %llu: %.100s", r->bad > 1 ? "; " : "",
                                 (unsigned long long)r->line, mica_last_error());
    return done ? MICA_OK : mc_fail_nomem(r->e->path);
}

static mica_status read_records(reading *r, mc_records *records) {
    MC_TRY(mc_records_open(records, r->e->path));
    for (;;) {
        mc_str record;
        MC_TRY(mc_cancel_check(r->options->cancel));
        mica_status status = mc_records_next(records, &record);
        r->line = records->number;
        if (status != MICA_OK && !records->misfit) return status;
        if (status == MICA_OK && !record.ptr) return MICA_OK;
        if (status == MICA_OK) status = add_line(r, record);
        if (status != MICA_OK) MC_TRY(note_bad(r, status));
    }
}

static mica_status read_source(reading *r) {
    const mc_examples_options *o = r->options;
    for (;;) {
        mica_tune_example x = {.struct_bytes = sizeof x};
        bool there = false;
        MC_TRY(mc_cancel_check(o->cancel));
        MC_TRY(o->source(o->source_user, o->set, &x, &there));
        if (!there) return MICA_OK;
        r->line++;
        mica_status status = x.line ? add_line(r, (mc_str){x.line, x.len ? x.len : strlen(x.line)})
                                    : add_tokens(r, &x);
        if (status != MICA_OK) MC_TRY(note_bad(r, status));
    }
}

static mica_status check_all(reading *r) {
    mc_examples *e = r->e;
    const char *text = mc_buffer_cstr(&r->problems);
    if (!text) return mc_fail_nomem(e->path);
    e->skipped = r->bad;
    if (r->bad && !r->options->skip_bad)
        return mc_fail(MICA_EFORMAT, "%s: %llu lines are no examples: %s%s", e->path,
                       (unsigned long long)r->bad, text, r->bad > REPORTED ? " ..." : "");
    if (!mc_examples_count(e) && (r->bad || !r->options->source))
        return mc_fail(MICA_EFORMAT, "%s: holds no examples%s%s", e->path, r->bad ? ": " : "",
                       text);
    return MICA_OK;
}

mica_status mc_examples_open(mc_examples *e, const char *path, const mc_examples_options *options) {
    mc_records records = {.number = 0};
    reading r = {.e = e, .options = options};
    *e = (mc_examples){.path = mc_strdup(path)};
    if (!e->path) return mc_fail_nomem(path);
    mica_status status = options->source ? read_source(&r) : read_records(&r, &records);
    mc_records_close(&records);
    if (status == MICA_OK) status = check_all(&r);
    mc_buffer_deinit(&r.problems);
    return status;
}

void mc_examples_close(mc_examples *e) {
    if (e->spill) fclose(e->spill);
    mc_buffer_deinit(&e->list);
    mc_buffer_deinit(&e->ids);
    mc_free(e->path);
    *e = (mc_examples){0};
}

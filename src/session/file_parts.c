#include "session/file_parts.h"

#include "base/system.h"

#include <errno.h>
#include <string.h>

size_t mc_padded(size_t bytes) {
    return (bytes + MC_WORD - 1) / MC_WORD * MC_WORD;
}

/* ---- checksums ---- */

/* Each step is a bijection of the sum and of the word, so a changed word changes the sum. */
uint64_t mc_sum_word(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ (sum >> 29);
}

uint64_t mc_sum_words(uint64_t sum, const void *data, size_t size) {
    const char *bytes = data;
    for (size_t i = 0; i < size; i += MC_WORD) {
        uint64_t word;
        memcpy(&word, bytes + i, MC_WORD);
        sum = mc_sum_word(sum, word);
    }
    return sum;
}

uint64_t mc_sum_bytes(uint64_t sum, const void *data, size_t size) {
    char last[MC_WORD] = {0};
    size_t whole = size / MC_WORD * MC_WORD;
    sum = mc_sum_words(mc_sum_word(sum, size), data, whole);
    if (size > whole) memcpy(last, (const char *)data + whole, size - whole);
    return mc_sum_words(sum, last, MC_WORD);
}

uint64_t mc_sum_text(uint64_t sum, const char *text) {
    return mc_sum_bytes(sum, text, strlen(text));
}

uint64_t mc_session_checksum(const void *data, size_t size) {
    return mc_sum_word(mc_sum_words(0, data, size), size);
}

/* ---- writing ---- */

static mica_status put_in_memory(mc_part_writer *w, const void *data, size_t size) {
    size_t padding = mc_padded(size) - size;
    memcpy(w->memory, data, size);
    memset(w->memory + size, 0, padding);
    w->memory += size + padding;
    return MICA_OK;
}

mica_status mc_part_put(mc_part_writer *w, const void *data, size_t size) {
    static const char zeros[MC_WORD] = {0};
    if (!w->file) return put_in_memory(w, data, size);
    size_t whole = size / MC_WORD * MC_WORD, padding = mc_padded(size) - size;
    char last[MC_WORD] = {0};
    if (size > whole) memcpy(last, (const char *)data + whole, size - whole);
    w->size += mc_padded(size);
    w->sum = mc_sum_words(w->sum, data, whole);
    if (size > whole) w->sum = mc_sum_words(w->sum, last, MC_WORD);
    errno = 0;
    if ((size && fwrite(data, 1, size, w->file) != size) ||
        (padding && fwrite(zeros, 1, padding, w->file) != padding))
        return mc_fail_errno(errno ? errno : EIO, "cannot write %s", w->path);
    return MICA_OK;
}

mica_status mc_part_end(mc_part_writer *w) {
    uint64_t sum = mc_sum_word(w->sum, w->size);
    return mc_part_put(w, &sum, sizeof sum);
}

/* ---- reading ---- */

mica_status mc_part_cut_short(const mc_part_reader *r) {
    return mc_fail(MICA_EFORMAT, "%s: the %s ends too early", r->name, r->kind);
}

mica_status mc_part_take(mc_part_reader *r, uint64_t size, const void **data) {
    if (size > r->size - r->at || mc_padded((size_t)size) > r->size - r->at)
        return mc_part_cut_short(r);
    *data = r->data + r->at;
    r->at += mc_padded((size_t)size);
    return MICA_OK;
}

mica_status mc_part_done(const mc_part_reader *r) {
    if (r->at == r->size) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: %zu bytes too many", r->name, r->size - r->at);
}

mica_status mc_part_check(const mc_part_reader *r) {
    uint64_t sum;
    memcpy(&sum, r->data + r->size, sizeof sum);
    if (r->size % MC_WORD == 0 && mc_session_checksum(r->data, r->size) == sum) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: the %s was cut short or altered", r->name, r->kind);
}

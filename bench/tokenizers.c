/* Times one tokenizer over documents. bench/tokenizers.py compares it with another library's.
 *
 *     tokenizers TOKENIZER_JSON DOCUMENTS
 *
 * DOCUMENTS is a file of texts, separated by NULs. Prints one line: the seconds of CPU time to open
 * the tokenizer, to encode all texts and to decode them, the number of ids, and a hash of them. */
#define _POSIX_C_SOURCE 200809L

#include <mica/tokenizer.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "timing.h"

typedef struct totals {
    double encode_s, decode_s;
    size_t ids;
    uint64_t hash; /* FNV-1a over the ids */
} totals;

static char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t cap = (size_t)1 << 20, n = 0;
    char *text = malloc(cap);
    for (size_t got; text && (got = fread(text + n, 1, cap - n, file)) > 0;) {
        n += got;
        if (n < cap) continue;
        char *more = realloc(text, cap *= 2);
        if (!more) free(text);
        text = more;
    }
    fclose(file);
    *size = n;
    return text;
}

static mica_status run_one(const mica_tokenizer *tok, const char *text, size_t len, totals *t) {
    int32_t *ids = NULL;
    char *decoded = NULL;
    size_t n = 0, decoded_len = 0;
    double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    mica_status status = mica_tokenizer_encode(tok, text, len, false, &ids, &n);
    double middle = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (status == MICA_OK) {
        status = mica_tokenizer_decode(tok, ids, n, false, &decoded, &decoded_len);
    }
    t->encode_s += middle - start;
    t->decode_s += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - middle;
    t->ids += n;
    for (size_t i = 0; i < n; i++)
        t->hash = (t->hash ^ (uint32_t)ids[i]) * UINT64_C(0x100000001B3);
    mica_free(ids);
    mica_free(decoded);
    return status;
}

static mica_status run_all(const char *path, const char *texts, size_t size) {
    mica_tokenizer *tok = NULL;
    totals t = {.hash = UINT64_C(0xCBF29CE484222325)};
    double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    mica_status status = mica_tokenizer_open(path, &tok);
    double open_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start;
    for (size_t at = 0; status == MICA_OK && at < size;) {
        const char *end = memchr(texts + at, '\0', size - at);
        size_t len = end ? (size_t)(end - texts) - at : size - at;
        status = run_one(tok, texts + at, len, &t);
        at += len + 1;
    }
    if (status == MICA_OK) {
        printf("%.6f %.6f %.6f %zu %016" PRIx64 "\n", open_s, t.encode_s, t.decode_s, t.ids,
               t.hash);
    } else {
        fprintf(stderr, "%s\n", mica_last_error());
    }
    mica_tokenizer_close(&tok);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: tokenizers TOKENIZER_JSON DOCUMENTS\n");
        return 2;
    }
    size_t size = 0;
    char *texts = read_all(argv[2], &size);
    if (!texts) {
        perror(argv[2]);
        return 1;
    }
    mica_status status = run_all(argv[1], texts, size);
    free(texts);
    return status == MICA_OK ? 0 : 1;
}

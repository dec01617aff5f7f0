#include "text/tokenizer/vocab.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/system.h"
#include "text/tokenizer/prefetch.h"

#include <stdio.h>
#include <string.h>

uint64_t mc_vocab_hash(const char *text, size_t len) {
    return mc_hash(text, len, 0);
}

int32_t mc_vocab_find_hashed(const mc_vocab *v, mc_str text, uint64_t hash) {
    uint32_t tag = (uint32_t)(hash >> 32);
    for (size_t i = (size_t)hash & v->mask; v->slots[i].id >= 0; i = (i + 1) & v->mask) {
        if (v->slots[i].tag != tag) continue;
        const mc_token *token = &v->tokens[v->slots[i].id];
        if (token->len == text.len && memcmp(token->text, text.ptr, text.len) == 0) {
            return v->slots[i].id;
        }
    }
    return -1;
}

int32_t mc_vocab_find_model(const mc_vocab *v, mc_str text, uint64_t hash) {
    int32_t id = mc_vocab_find_hashed(v, text, hash);
    return id >= 0 && (v->tokens[id].flags & MC_TOKEN_MODEL) ? id : -1;
}

void mc_vocab_find_batch(const mc_vocab *v, const mc_str *texts, size_t n, int32_t *ids) {
    uint64_t hashes[MC_VOCAB_BATCH];
    for (size_t i = 0; i < n; i++) {
        hashes[i] = mc_vocab_hash(texts[i].ptr, texts[i].len);
        mc_prefetch(&v->slots[hashes[i] & v->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        ids[i] = v->slots[hashes[i] & v->mask].id; /* a guess, checked below */
        if (ids[i] >= 0) mc_prefetch(&v->tokens[ids[i]]);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0) mc_prefetch(v->tokens[ids[i]].text);
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = mc_vocab_find_model(v, texts[i], hashes[i]);
}

/* Reads an entry of the vocabulary: a text and its id, or [text, score] at an index. */
static mica_status read_entry(const mc_json_iter *it, bool listed, size_t index, mc_str *text,
                              int64_t *id) {
    if (listed) {
        mc_json_iter pair = mc_json_begin(it->value);
        *id = (int64_t)index;
        if (mc_json_get_type(it->value) == MC_JSON_ARRAY && mc_json_next(&pair) &&
            mc_json_get_str(pair.value, text))
            return MICA_OK;
        return mc_fail(MICA_EFORMAT, "model.vocab[%zu]: not a token and its score", index);
    }
    *text = it->key;
    if (mc_json_get_int(it->value, id)) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "model.vocab: the id of '%.*s' is not an integer",
                   MC_STR_ARG(it->key));
}

/* Counts the tokens and bytes of a vocabulary, to allocate for them at once. */
static mica_status measure_vocab(mc_json vocab, bool listed, size_t *count, size_t *bytes,
                                 int64_t *max_id) {
    for (mc_json_iter it = mc_json_begin(vocab); mc_json_next(&it);) {
        mc_str text;
        int64_t id;
        MC_TRY(read_entry(&it, listed, *count, &text, &id));
        if (id < 0 || id >= MC_VOCAB_MAX_IDS) {
            return mc_fail(MICA_EFORMAT, "model.vocab: the id %lld of '%.*s' is outside 0..%d",
                           (long long)id, MC_STR_ARG(text), MC_VOCAB_MAX_IDS - 1);
        }
        *max_id = id > *max_id ? id : *max_id;
        *bytes += text.len + 1;
        ++*count;
    }
    return MICA_OK;
}

static mica_status measure_added(mc_json added, size_t *count, size_t *bytes) {
    for (mc_json_iter it = mc_json_begin(added); mc_json_next(&it);) {
        size_t i = *count;
        mc_str content;
        int64_t id;
        if (!mc_json_get_str(mc_json_find(it.value, "content"), &content)) {
            return mc_fail(MICA_EFORMAT, "added_tokens[%zu].content: not a string", i);
        }
        if (!mc_json_get_int(mc_json_find(it.value, "id"), &id) || id < 0 ||
            id >= MC_VOCAB_MAX_IDS) {
            return mc_fail(MICA_EFORMAT, "added_tokens[%zu].id of '%.*s': not an integer in 0..%d",
                           i, MC_STR_ARG(content), MC_VOCAB_MAX_IDS - 1);
        }
        *bytes += content.len + 1;
        ++*count;
    }
    return MICA_OK;
}

/* The text and the id of a member of added_tokens_decoder. */
static bool more_of(const mc_json_iter *it, mc_str *content, int64_t *id) {
    *id = 0;
    for (size_t i = 0; i < it->key.len; i++) {
        if (it->key.ptr[i] < '0' || it->key.ptr[i] > '9' || *id >= MC_VOCAB_MAX_IDS) return false;
        *id = *id * 10 + (it->key.ptr[i] - '0');
    }
    return it->key.len && *id < MC_VOCAB_MAX_IDS &&
           mc_json_get_str(mc_json_find(it->value, "content"), content) && content->len;
}

/* At most: which of them are left out shows when the others are in the map. */
static void measure_more(mc_json more, size_t *count, size_t *bytes) {
    mc_str content;
    int64_t id;
    for (mc_json_iter it = mc_json_begin(more); mc_json_next(&it);) {
        if (!more_of(&it, &content, &id)) continue;
        *bytes += content.len + 1;
        ++*count;
    }
}

/* What a vocabulary is filled from. */
typedef struct filling {
    mc_vocab *v;
    char *room;      /* for the next text */
    size_t count;    /* tokens in all, at most */
    size_t capacity; /* tokens that there is memory for */
} filling;

/* added: number of tokens beside the model's. Mostly their ids follow the largest of those. */
static bool allocate(filling *f, size_t bytes, int64_t max_id, size_t added) {
    mc_vocab *v = f->v;
    size_t slots = 16;
    while (slots / 4 * 3 < f->count) /* 262,145 tokens are not worth 8 MB */
        slots *= 2;
    v->size = (size_t)(max_id + 1);
    v->bytes = bytes;
    f->capacity = v->size + added; /* the first are fewer than MC_VOCAB_MAX_IDS */
    v->tokens = mc_table_alloc(f->capacity * sizeof *v->tokens);
    f->room = v->texts = mc_table_alloc(bytes);
    v->slots = mc_table_alloc(slots * sizeof *v->slots);
    if (!v->tokens || !v->texts || !v->slots) return false;
    memset(v->tokens, 0, v->size * sizeof *v->tokens);
    memset(v->slots, 0xFF, slots * sizeof *v->slots);
    v->mask = slots - 1;
    return true;
}

static mica_status check_sparse(int64_t max_id, size_t count) {
    if (max_id < MC_VOCAB_SPARSE + MC_VOCAB_SPARSE_FACTOR * (int64_t)count) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "vocabulary: the id %lld is far above the number of tokens, %zu",
                   (long long)max_id, count);
}

/* Lets an id be below the size. */
static mica_status reach(filling *f, int64_t id) {
    mc_vocab *v = f->v;
    size_t size = (size_t)id + 1;
    MC_TRY(check_sparse(id, f->count));
    if (size > f->capacity) {
        size_t more = size + size / 2;
        mc_token *tokens = mc_table_alloc(more * sizeof *tokens);
        if (!tokens) return mc_fail_nomem("vocabulary");
        memcpy(tokens, v->tokens, v->size * sizeof *tokens);
        mc_free(v->tokens);
        v->tokens = tokens;
        f->capacity = more;
    }
    if (size <= v->size) return MICA_OK;
    memset(v->tokens + v->size, 0, (size - v->size) * sizeof *v->tokens);
    v->size = size;
    return MICA_OK;
}

/* Copies the text and adds it to the hash map. It must not be in the map yet. */
static mica_status put(filling *f, mc_str text, int32_t id, uint64_t hash, uint32_t flags) {
    mc_vocab *v = f->v;
    mc_token *token = &v->tokens[id];
    if (token->text) {
        return mc_fail(MICA_EFORMAT, "vocabulary: the tokens '%s' and '%.*s' have the same id %d",
                       token->text, MC_STR_ARG(text), (int)id);
    }
    memcpy(f->room, text.ptr, text.len);
    f->room[text.len] = '\0';
    *token = (mc_token){f->room, (uint32_t)text.len, flags};
    f->room += text.len + 1;
    size_t i = (size_t)hash & v->mask;
    while (v->slots[i].id >= 0)
        i = (i + 1) & v->mask;
    v->slots[i] = (mc_vocab_slot){(uint32_t)(hash >> 32), id};
    return MICA_OK;
}

/* Tokens that are put together, so that their cache misses overlap. */
typedef struct batch {
    mc_str texts[MC_VOCAB_BATCH];
    uint64_t hashes[MC_VOCAB_BATCH];
    int32_t ids[MC_VOCAB_BATCH];
    size_t n;
} batch;

static mica_status put_batch(filling *f, batch *b) {
    const mc_vocab *v = f->v;
    for (size_t i = 0; i < b->n; i++) {
        b->hashes[i] = mc_vocab_hash(b->texts[i].ptr, b->texts[i].len);
        mc_prefetch(&v->slots[b->hashes[i] & v->mask]);
        mc_prefetch(&v->tokens[b->ids[i]]);
    }
    for (size_t i = 0; i < b->n; i++) {
        if (mc_vocab_find_hashed(v, b->texts[i], b->hashes[i]) >= 0) {
            return mc_fail(MICA_EFORMAT, "model.vocab: '%.*s' is listed twice",
                           MC_STR_ARG(b->texts[i]));
        }
        MC_TRY(put(f, b->texts[i], b->ids[i], b->hashes[i], MC_TOKEN_MODEL));
    }
    b->n = 0;
    return MICA_OK;
}

static mica_status fill_vocab(filling *f, mc_json vocab, bool listed) {
    batch b = {.n = 0};
    size_t index = 0;
    for (mc_json_iter it = mc_json_begin(vocab); mc_json_next(&it); index++) {
        int64_t id;
        MC_TRY(read_entry(&it, listed, index, &b.texts[b.n], &id));
        b.ids[b.n] = (int32_t)id;
        if (++b.n == MC_VOCAB_BATCH) MC_TRY(put_batch(f, &b));
    }
    return put_batch(f, &b);
}

static mica_status fill_added(filling *f, mc_json added) {
    mc_vocab *v = f->v;
    for (mc_json_iter it = mc_json_begin(added); mc_json_next(&it);) {
        mc_str content = {0};
        int64_t id = 0;
        bool special = false;
        mc_json_get_str(mc_json_find(it.value, "content"), &content);
        mc_json_get_int(mc_json_find(it.value, "id"), &id);
        mc_json_get_bool(mc_json_find(it.value, "special"), &special);
        uint32_t flags = MC_TOKEN_ADDED | (special ? (uint32_t)MC_TOKEN_SPECIAL : 0);
        uint64_t hash = mc_vocab_hash(content.ptr, content.len);
        int32_t known = mc_vocab_find_hashed(v, content, hash);
        if (known >= 0) {
            v->tokens[known].flags |= flags;
        } else {
            MC_TRY(reach(f, id));
            MC_TRY(put(f, content, (int32_t)id, hash, flags));
        }
    }
    return MICA_OK;
}

static mica_status fill_more(filling *f, mc_json more) {
    mc_vocab *v = f->v;
    mc_str content;
    int64_t id;
    for (mc_json_iter it = mc_json_begin(more); mc_json_next(&it);) {
        bool special = false;
        if (!more_of(&it, &content, &id)) continue;
        mc_json_get_bool(mc_json_find(it.value, "special"), &special);
        uint32_t flags =
            MC_TOKEN_ADDED | MC_TOKEN_MORE | (special ? (uint32_t)MC_TOKEN_SPECIAL : 0);
        uint64_t hash = mc_vocab_hash(content.ptr, content.len);
        int32_t known = mc_vocab_find_hashed(v, content, hash);
        if (known >= 0 && !(v->tokens[known].flags & MC_TOKEN_ADDED))
            v->tokens[known].flags |= flags;
        if (known >= 0 || mc_vocab_token(v, id)) continue;
        MC_TRY(reach(f, id));
        MC_TRY(put(f, content, (int32_t)id, hash, flags));
    }
    return MICA_OK;
}

static mica_status check_types(mc_json vocab, bool listed, mc_json_type type, mc_json added) {
    const char *wanted =
        listed ? "not an array of tokens and scores" : "not an object of tokens and ids";
    if (mc_json_get_type(vocab) != type)
        return mc_fail(MICA_EFORMAT, "model.vocab: %s", mc_json_exists(vocab) ? wanted : "missing");
    if (mc_json_exists(added) && mc_json_get_type(added) != MC_JSON_ARRAY) {
        return mc_fail(MICA_EFORMAT, "added_tokens: not an array");
    }
    return MICA_OK;
}

mica_status mc_vocab_load(mc_vocab *v, mc_json vocab, mc_json_type type, mc_json added,
                          mc_json more) {
    bool listed = type == MC_JSON_ARRAY;
    MC_TRY(check_types(vocab, listed, type, added));
    size_t count = 0, n_added = 0, bytes = 1;
    int64_t max_id = 0;
    MC_TRY(measure_vocab(vocab, listed, &count, &bytes, &max_id));
    if (count == 0) return mc_fail(MICA_EFORMAT, "model.vocab: empty");
    MC_TRY(measure_added(added, &n_added, &bytes));
    measure_more(more, &n_added, &bytes);
    MC_TRY(check_sparse(max_id, count + n_added));
    filling f = {.v = v, .count = count + n_added};
    if (!allocate(&f, bytes, max_id, n_added)) return mc_fail_nomem("vocabulary");
    MC_TRY(fill_vocab(&f, vocab, listed));
    MC_TRY(fill_added(&f, added));
    return fill_more(&f, more);
}

void mc_vocab_byte_ids(const mc_vocab *v, int32_t ids[256]) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        int len = snprintf(name, sizeof name, "<0x%02X>", byte);
        mc_str text = {name, (size_t)len};
        ids[byte] = mc_vocab_find_model(v, text, mc_vocab_hash(text.ptr, text.len));
    }
}

mica_status mc_vocab_fill_tree(const mc_vocab *v, mc_byte_tree *t) {
    for (size_t id = 0; id < v->size; id++) {
        const mc_token *token = &v->tokens[id];
        bool fits;
        if (!token->text || !(token->flags & MC_TOKEN_MODEL)) continue;
        MC_TRY(mc_byte_tree_put(t, mc_token_str(token), (int32_t)id, &fits));
        if (!fits && token->len)
            return mc_fail(MICA_EUNSUPPORTED,
                           "model.vocab: the token %zu has %u bytes, the limit is %d", id,
                           (unsigned)token->len, MC_BYTE_TREE_MAX_LEN);
    }
    return MICA_OK;
}

void mc_vocab_deinit(mc_vocab *v) {
    mc_free(v->tokens);
    mc_free(v->texts);
    mc_free(v->slots);
    *v = (mc_vocab){0};
}

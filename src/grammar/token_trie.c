#include "grammar/token_trie.h"

#include "answer/format.h"
#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/grammar_build.h"
#include "text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LEN = 255 };

static mica_status nomem(void) {
    return mc_fail_nomem("a vocabulary's tree");
}

/* Whether a text has at most MC_PLAIN_CHARS whole characters, none of which means anything in a
 * JSON string. */
static bool is_plain(mc_str text) {
    size_t chars = 0;
    uint32_t c;
    for (size_t i = 0, n; i < text.len; i += n, chars++) {
        n = mc_utf8_decode(text.ptr + i, text.len - i, &c);
        if (!n || c < 0x20 || c == '"' || c == '\\') return false;
    }
    return chars <= MC_PLAIN_CHARS;
}

typedef struct entry {
    mc_str text;
    int32_t id;
} entry;

static int by_text(const void *a, const void *b) {
    const entry *one = a, *other = b;
    size_t n = one->text.len < other->text.len ? one->text.len : other->text.len;
    int order = memcmp(one->text.ptr, other->text.ptr, n);
    if (order) return order;
    if (one->text.len != other->text.len) return one->text.len < other->text.len ? -1 : 1;
    return (one->id > other->id) - (one->id < other->id);
}

static size_t common(mc_str a, mc_str b) {
    size_t n = a.len < b.len ? a.len : b.len, i = 0;
    while (i < n && a.ptr[i] == b.ptr[i])
        i++;
    return i;
}

/* Adds the nodes of a text behind those it shares with the one before. path: [MAX_LEN] the nodes of
 * the text before. */
static mica_status add_text(mc_trie *trie, mc_str text, size_t shared, uint32_t *path) {
    for (size_t i = shared; i < text.len; i++) {
        const mc_trie_node node = {.depth = (uint8_t)i, .byte = (uint8_t)text.ptr[i]};
        path[i] = (uint32_t)MC_BUFFER_COUNT(&trie->nodes, mc_trie_node);
        if (!mc_buffer_add(&trie->nodes, &node, sizeof node)) return nomem();
    }
    return MICA_OK;
}

static void end_nodes(mc_trie *trie, const uint32_t *path, size_t from, size_t to) {
    uint32_t end = (uint32_t)MC_BUFFER_COUNT(&trie->nodes, mc_trie_node);
    for (size_t i = from; i < to; i++)
        MC_BUFFER_AT(&trie->nodes, mc_trie_node)[path[i]].end = end;
}

/* Makes the tree of sorted entries. */
static mica_status make_trie(const entry *entries, size_t count, mc_trie *trie) {
    uint32_t path[MAX_LEN];
    mc_str before = {"", 0};
    for (size_t i = 0; i < count; i++) {
        mc_str text = entries[i].text;
        size_t shared = common(before, text);
        end_nodes(trie, path, shared, before.len);
        MC_TRY(add_text(trie, text, shared, path));
        mc_trie_node *node = &MC_BUFFER_AT(&trie->nodes, mc_trie_node)[path[text.len - 1]];
        if (!node->count++) node->first = (uint32_t)MC_BUFFER_COUNT(&trie->ids, int32_t);
        if (!mc_buffer_add(&trie->ids, &entries[i].id, sizeof entries[i].id)) return nomem();
        before = text;
    }
    end_nodes(trie, path, 0, before.len);
    return MICA_OK;
}

static void take_text(mc_token_trie *trie, entry *entries, size_t *n, mc_str text, int32_t id) {
    entries[(*n)++] = (entry){text, id};
    if (is_plain(text)) trie->plain[id / 32] |= 1u << id % 32;
}

/* Takes the texts of all tokens. Returns how many may be allowed at all. */
static size_t take_texts(const mica_tokenizer *tok, mc_token_trie *trie, entry *entries) {
    size_t n = 0;
    for (size_t id = 0; id < trie->vocab; id++) {
        mc_str text;
        trie->texts[id] = (mc_str){NULL, 0};
        if (mica_tokenizer_is_special(tok, (int32_t)id) ||
            !mc_decoder_bytes(&tok->decoder, (int32_t)id, &text) || !text.len ||
            text.len > MAX_LEN ||
            memchr(text.ptr, MC_MARK, text.len)) /* of bytes, no text has it */
            continue;
        trie->texts[id] = text;
        take_text(trie, entries, &n, text, (int32_t)id);
    }
    return n;
}

/* Takes the marks among the tokens. false: no memory. */
static bool take_marks(const mica_tokenizer *tok, mc_token_trie *trie, entry *entries, size_t *n) {
    enum { MARK_LEN = 48 };
    const char *mark;
    if (!mc_buffer_reserve(&trie->marks, MC_MARKS * MARK_LEN)) return false; /* they stay there */
    for (size_t i = 0; (mark = mc_answer_mark(i)) != NULL; i++) {
        int32_t id = mc_answer_mark_token(tok, mark);
        size_t at = trie->marks.len, len = strlen(mark);
        if (id < 0 || (size_t)id >= trie->vocab || len >= MARK_LEN) continue;
        (void)mc_buffer_add_byte(&trie->marks, (char)MC_MARK);
        (void)mc_buffer_add(&trie->marks, mark, len);
        trie->texts[id] = (mc_str){trie->marks.data + at, len + 1};
        take_text(trie, entries, n, trie->texts[id], id);
    }
    return true;
}

static mica_status build(const mica_tokenizer *tok, mc_token_trie *trie, entry *entries) {
    size_t n = take_texts(tok, trie, entries), kept = 0;
    if (!take_marks(tok, trie, entries, &n)) return nomem();
    qsort(entries, n, sizeof *entries, by_text);
    MC_TRY(make_trie(entries, n, &trie->all));
    for (size_t i = 0; i < n; i++) {
        if (!is_plain(entries[i].text)) entries[kept++] = entries[i];
    }
    return make_trie(entries, kept, &trie->others);
}

mica_status mc_token_trie_open(const mica_tokenizer *tok, size_t vocab, mc_token_trie **out) {
    *out = NULL;
    if (tok->decoder.joins_with_spaces)
        return mc_fail(MICA_EUNSUPPORTED, "the tokenizer has no decoder: its tokens are joined by "
                                          "spaces, which no constraint knows of");
    mc_token_trie *trie = mc_calloc(1, sizeof *trie);
    if (!trie) return nomem();
    trie->vocab = vocab;
    trie->words = (vocab + 31) / 32;
    trie->holder = mc_tokenizer_retain(tok);
    trie->texts = mc_array_alloc(vocab, sizeof *trie->texts);
    trie->plain = mc_calloc(trie->words, sizeof *trie->plain);
    entry *entries = mc_array_alloc(vocab + MC_MARKS, sizeof *entries);
    mica_status status =
        trie->texts && trie->plain && entries ? build(tok, trie, entries) : nomem();
    mc_free(entries);
    *out = trie;
    if (status != MICA_OK) mc_token_trie_close(out);
    return status;
}

void mc_token_trie_close(mc_token_trie **trie) {
    mc_token_trie *t = *trie;
    *trie = NULL;
    if (!t) return;
    mc_buffer_deinit(&t->all.nodes);
    mc_buffer_deinit(&t->all.ids);
    mc_buffer_deinit(&t->others.nodes);
    mc_buffer_deinit(&t->others.ids);
    mica_tokenizer_close(&t->holder);
    mc_buffer_deinit(&t->marks);
    mc_free(t->texts);
    mc_free(t->plain);
    mc_free(t);
}

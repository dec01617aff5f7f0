#include "session/session_file.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/integer.h"
#include "base/save.h"
#include "device/device.h"
#include "group/group.h"
#include "io/published_make.h"
#include "session/file_parts.h"
#include "session/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 3, SAMPLE = 64 };

static const char MAGIC[8] = {'M', 'I', 'C', 'A', 'S', 'E', 'S', 'S'};

typedef struct header { /* whole words, no padding */
    char magic[8];
    uint32_t version, byte_order;
    uint64_t fingerprint;
    int64_t context; /* mc_session_model's context */
    int64_t tokens, layers, kv_heads, head_dim;
    int64_t dtype; /* dtype of keys and values: a mica_dtype */
    int64_t forgotten;
    uint64_t forgotten_hash;
} header;

/* ---- fingerprints ---- */

static void add_int(uint64_t *sum, int64_t value) {
    *sum = mc_sum_word(*sum, (uint64_t)value);
}

static void add_real(uint64_t *sum, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    *sum = mc_sum_word(*sum, bits);
}

/* What version 3 did not know. */
static void add_new_rope(uint64_t *sum, const mc_rope_spec *rope) {
    const double reals[] = {
        rope->kind,      rope->partial,   rope->amplitude,   rope->original_context,
        rope->beta_fast, rope->beta_slow, rope->whole_bounds};
    *sum = mc_sum_words(*sum, reals, sizeof reals);
    *sum = mc_sum_words(*sum, rope->short_divisors, sizeof rope->short_divisors);
    *sum = mc_sum_words(*sum, rope->long_divisors, sizeof rope->long_divisors);
}

static void add_rope(uint64_t *sum, const mc_rope_spec *rope) {
    add_real(sum, rope->base);
    add_real(sum, rope->factor);
    add_int(sum, rope->kind == MC_ROPE_LLAMA3);
    add_real(sum, rope->low_freq_factor);
    add_real(sum, rope->high_freq_factor);
    add_real(sum, rope->kind == MC_ROPE_LLAMA3 ? rope->original_context : 0.0);
    if (rope->kind > MC_ROPE_LLAMA3 || rope->partial != 0) add_new_rope(sum, rope);
    if (rope->neighbours) add_int(sum, 1);
}

/* Whether attention has no numbers but those that version 3 knew: a layer's window and RoPE, and
 * what the spec and the first layer say of all. */
static bool is_plain(const mc_decoder_spec *spec, const mc_attention_spec *first,
                     const mc_block_spec *block) {
    mc_block_spec plain = {0};
    plain.attention = (mc_attention_spec){.heads = spec->heads,
                                          .kv_heads = spec->kv_heads,
                                          .head_dim = spec->head_dim,
                                          .window = block->attention.window,
                                          .rope = block->attention.rope,
                                          .scale = first->scale,
                                          .soft_cap = first->soft_cap};
    return memcmp(plain.own, block->own, sizeof plain.own) == 0;
}

/* Blocks that version 3 did not know. */
static void add_block(uint64_t *sum, const mc_decoder_spec *spec, const mc_attention_spec *first,
                      const mc_block_spec *block) {
    bool known = (block->kind == &mc_block_gated && block->gated.sparse == 0) ||
                 (block->kind == &mc_block_attention && is_plain(spec, first, block));
    if (known && block->factor == 1.0) return;
    *sum = mc_sum_text(*sum, block->kind->name);
    *sum = mc_sum_words(*sum, block->own, sizeof block->own);
    add_real(sum, block->factor);
}

/* The numbers of the plain topology, in the order of version 3. */
static void add_spec(uint64_t *sum, const mc_decoder_spec *spec) {
    static const mc_block_spec none = {0};
    const mc_block_spec *block, *plain[2] = {&none, &none}; /* attention, MLP */
    for (int i = 0; spec->n_layers && (block = mc_spec_block(spec, 0, i)) && i < 2; i++)
        plain[i] = block;
    const mc_attention_spec *a = &plain[0]->attention;
    const int64_t ints[] = {spec->hidden,
                            spec->intermediate,
                            spec->heads,
                            spec->kv_heads,
                            spec->head_dim,
                            spec->vocab,
                            spec->context,
                            spec->n_layers,
                            mc_block_has_bias(plain[0], MC_ATTENTION_Q),
                            mc_block_has_bias(plain[0], MC_ATTENTION_O),
                            mc_block_has_bias(plain[1], MC_GATED_UP),
                            plain[1]->gated.activation};
    const double reals[] = {spec->norm_eps, spec->norm_offset, spec->embed_scale,
                            a->scale,       a->soft_cap,       spec->final_softcap};
    *sum = mc_sum_text(*sum, spec->family);
    *sum = mc_sum_words(*sum, ints, sizeof ints);
    *sum = mc_sum_words(*sum, reals, sizeof reals);
    for (int i = 0; i < MC_MAX_ROPES; i++)
        if (i < 2 || spec->ropes[i].factor != 0) add_rope(sum, &spec->ropes[i]);
    for (int i = 0; i < spec->n_layers; i++) {
        add_int(sum, mc_spec_attention(spec, i)->window);
        add_int(sum, mc_spec_attention(spec, i)->rope);
    }
    for (int i = 0; i < spec->n_blocks; i++)
        add_block(sum, spec, a, &spec->blocks[i]);
    for (int i = 0; i < spec->n_layers; i++)
        if (mc_spec_source(spec, i) != i) add_int(sum, i * MC_MAX_LAYERS + mc_spec_source(spec, i));
}

/* Adds the beginning, the middle and the end of the data. All of it would take as long as reading
 * the file from disk. */
static void add_data(uint64_t *sum, const mc_weight_tensor *t) {
    const char *data = t->bytes ? t->data : "";
    size_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE;
    *sum = mc_sum_text(*sum, t->name);
    *sum = mc_sum_text(*sum, t->kind);
    for (int i = 0; i < t->ndim; i++)
        add_int(sum, t->shape[i]);
    *sum = mc_sum_bytes(*sum, data, n);
    *sum = mc_sum_bytes(*sum, data + (t->bytes - n) / 2, n);
    *sum = mc_sum_bytes(*sum, data + (t->bytes - n), n);
}

/* What is made of tensors of the files counts as these. */
static void add_tensor(uint64_t *sum, const mc_weight_tensor *t) {
    const mc_weight_tensor *source;
    for (size_t i = 0; t->made && (source = mc_made_source(t, i)); i++)
        add_data(sum, source);
    if (!t->made) add_data(sum, t);
}

/* The factor is read in place: several threads may not evaluate in the model's scope. */
static mica_status add_factor(uint64_t *sum, mica_array factor) {
    if (!mica_valid(factor)) return MICA_OK;
    const mc_node *node = mc_node_of(factor);
    const void *data;
    void *owned;
    if (node->state != MC_READY || node->scalar || !mc_layout_is_dense(&node->layout))
        return mc_fail(MICA_EINTERNAL, "an adapter's factor is not in memory as it was loaded");
    MC_TRY(mc_storage_view(mica_scope_device(factor.scope), node->storage, node->offset_bytes,
                           &node->layout, &data, &owned));
    add_int(sum, node->layout.shape[0]);
    add_int(sum, node->layout.shape[1]);
    *sum = mc_sum_bytes(*sum, data, (size_t)mc_layout_bytes(&node->layout));
    mc_free(owned);
    return MICA_OK;
}

static mica_status add_adapter(uint64_t *sum, const mc_linear *linear) {
    MC_TRY(add_factor(sum, linear->lora_a));
    return add_factor(sum, linear->lora_b);
}

mica_status mc_session_fingerprint(const mc_session_model *model, uint64_t *fingerprint) {
    const mc_lm *lm = model->lm;
    uint64_t sum = 0;
    *fingerprint = model->fingerprint;
    if (lm->group) return MICA_OK;
    add_spec(&sum, &lm->spec);
    for (size_t i = 0; i < mc_weights_count(lm->weights); i++)
        add_tensor(&sum, mc_weights_at(lm->weights, i));
    add_int(&sum, lm->adapter != NULL);
    const mc_lm_slot *w;
    for (size_t i = 0; lm->adapter && (w = mc_lm_next_matrix(lm, &i));)
        MC_TRY(add_adapter(&sum, &w->linear));
    if (lm->adapter) {
        MC_TRY(add_adapter(&sum, &lm->embed));
        MC_TRY(add_adapter(&sum, &lm->layer_projection));
        for (int i = 0; i < MC_MAX_STREAMS; i++) {
            MC_TRY(add_adapter(&sum, &lm->streams[i]));
            MC_TRY(add_adapter(&sum, &lm->unstreams[i]));
        }
        MC_TRY(add_adapter(&sum, &lm->head));
    }
    *fingerprint = sum;
    return MICA_OK;
}

/* ---- writing ---- */

/* The header and the history. */
static mica_status put_beginning(mc_part_writer *w, const mc_session *session) {
    const mc_session_model *model = session->model;
    const mc_decoder_spec *spec = &model->lm->spec;
    header head = {
        .version = VERSION,
        .byte_order = MC_BYTE_ORDER_MARK,
        .context = model->context,
        .tokens = mc_session_count(session),
        .layers = spec->n_layers,
        .kv_heads = spec->kv_heads,
        .head_dim = spec->head_dim,
        .dtype = model->lm->kv_dtype,
        .forgotten = session->history.start,
        .forgotten_hash = session->history.hash,
    };
    memcpy(head.magic, MAGIC, sizeof head.magic);
    MC_TRY(mc_session_fingerprint(model, &head.fingerprint));
    MC_TRY(mc_part_put(w, &head, sizeof head));
    return mc_part_put(w, session->history.ids.data, session->history.ids.len);
}

static mica_status put_session(mc_part_writer *w, mc_session *session) {
    MC_TRY(put_beginning(w, session));
    MC_TRY(mc_cache_write(&session->cache, mc_session_count(session), w));
    return mc_part_end(w);
}

/* What ranks write together, into the file of rank 0. */
static mica_status put_parts(mc_part_writer *w, mc_session *session, bool first) {
    mica_status status = first ? put_beginning(w, session) : MICA_OK;
    MC_TRY(mc_group_outcome(session->model->lm->group, status));
    MC_TRY(mc_ranks_write(&session->cache, mc_session_count(session), w));
    return first ? mc_part_end(w) : MICA_OK;
}

static mica_status save_parts(mc_session *session, const char *path) {
    mica_group *group = session->model->lm->group;
    bool first = mica_group_rank(group) == 0, opened = false;
    mc_save save = {0};
    mica_status status = mc_session_settle(session);
    if (status == MICA_OK && first) {
        status = mc_save_open(&save, path);
        opened = status == MICA_OK;
    }
    status = mc_group_outcome(group, status);
    mc_part_writer w = {.file = save.file, .path = path};
    if (status == MICA_OK) status = put_parts(&w, session, first);
    if (opened) status = mc_save_close(&save, status);
    return mc_group_outcome(group, status);
}

mica_status mc_session_save(mc_session *session, const char *path) {
    mc_save save;
    if (session->model->lm->group) return save_parts(session, path);
    MC_TRY(mc_session_settle(session));
    MC_TRY(mc_save_open(&save, path));
    mc_part_writer w = {.file = save.file, .path = path};
    return mc_save_close(&save, put_session(&w, session));
}

/* ---- reading ---- */

/* Refuses a file that is larger than any session of this model with so many tokens, before the
 * checksum reads all of it. If the header is another model's, check_header compares the checksum
 * first, then the models. */
static mica_status check_size(const mc_session_model *model, const header *head,
                              const mc_part_reader *r) {
    const mc_decoder_spec *spec = &model->lm->spec;
    if (model->lm->group) return MICA_OK; /* the plan of a rank's caches says nothing of the file */
    if (head->layers != spec->n_layers || head->kv_heads != spec->kv_heads ||
        head->head_dim != spec->head_dim || head->dtype != (int64_t)model->lm->kv_dtype)
        return MICA_OK;
    const mc_cache_options options = {.states = model->states, .context = model->context};
    int64_t tokens = mc_min(mc_max(head->tokens, 0), (int64_t)r->size); /* more would have room */
    uint64_t max;
    MC_TRY(mc_cache_max_saved_bytes(model->lm, &options, tokens, &max));
    max += sizeof *head + mc_padded((size_t)tokens * sizeof(int32_t));
    if (r->size <= max) return MICA_OK;
    return mc_fail(MICA_EFORMAT,
                   "%s: is too large: it has %zu bytes, and a session of %lld tokens "
                   "at most %llu",
                   r->name, r->size + MC_WORD, (long long)head->tokens,
                   (unsigned long long)(max + MC_WORD));
}

static mica_status check_header(const mc_session_model *model, const header *head,
                                mc_part_reader *r) {
    const mc_decoder_spec *spec = &model->lm->spec;
    uint64_t fingerprint;
    if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0)
        return mc_fail(MICA_EFORMAT, "%s: not a session file", r->name);
    if (head->byte_order != MC_BYTE_ORDER_MARK || head->version != VERSION)
        return mc_fail(MICA_EFORMAT,
                       "%s: a session file of version %u, or from a computer of another kind; "
                       "version %d is known",
                       r->name, (unsigned)head->version, VERSION);
    MC_TRY(check_size(model, head, r));
    MC_TRY(mc_part_check(r));
    MC_TRY(mc_session_fingerprint(model, &fingerprint));
    if (head->fingerprint != fingerprint || head->layers != spec->n_layers ||
        head->kv_heads != spec->kv_heads || head->head_dim != spec->head_dim)
        return mc_fail(MICA_EINVAL,
                       "%s: saved from another model or adapter: open the one it was saved from",
                       r->name);
    if (head->context != model->context)
        return mc_fail(MICA_EINVAL,
                       "%s: saved with a context of %lld tokens, the model was opened with %lld "
                       "(0: its own)",
                       r->name, (long long)head->context, (long long)model->context);
    if (head->dtype != (int64_t)model->lm->kv_dtype)
        return mc_fail(MICA_EINVAL,
                       "%s: saved with another type of cache or arithmetic: the model was opened "
                       "with caches of %s",
                       r->name,
                       model->lm->kv_dtype == MICA_U8 ? "int8"
                                                      : mica_dtype_name(model->lm->kv_dtype));
    return MICA_OK;
}

static mica_status take_history(mc_part_reader *r, const header *head, mc_session *session) {
    const mc_decoder_spec *spec = &session->model->lm->spec;
    const void *data = NULL;
    if (head->tokens < 0 || head->tokens > mc_session_room(session))
        return mc_fail(MICA_EFORMAT, "%s: a history of %lld tokens", r->name,
                       (long long)head->tokens);
    if (head->forgotten < 0 || head->forgotten > (head->context ? head->tokens : 0))
        return mc_fail(MICA_EFORMAT, "%s: %lld of %lld tokens are forgotten", r->name,
                       (long long)head->forgotten, (long long)head->tokens);
    int64_t n = head->tokens - head->forgotten;
    MC_TRY(mc_part_take(r, (size_t)n * sizeof(int32_t), &data));
    const int32_t *ids = data;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= spec->vocab)
            return mc_fail(MICA_EFORMAT, "%s: token %lld of the history is %d", r->name,
                           (long long)i, (int)ids[i]);
    session->history.start = head->forgotten;
    session->history.hash = head->forgotten_hash;
    if (!mc_tokens_add(&session->history, ids, n)) return mc_fail_nomem("a session's history");
    return MICA_OK;
}

static mica_status take_session(mc_part_reader *r, const header *head, mc_session *session) {
    MC_TRY(take_history(r, head, session));
    bool ranks = session->model->lm->group != NULL;
    MC_TRY(
        (ranks ? mc_ranks_read : mc_cache_read)(&session->cache, session->scope, head->tokens, r));
    return mc_part_done(r);
}

mica_status mc_session_parse(const mc_session_model *model, const void *data, size_t size,
                             const char *name, int64_t chunk, mc_session **out) {
    header head;
    *out = NULL;
    mc_part_reader r = {.kind = "session file",
                        .name = name,
                        .data = data,
                        .size = size - MC_WORD,
                        .at = sizeof head};
    if (size < sizeof head + MC_WORD) {
        bool begun = size >= sizeof MAGIC && memcmp(data, MAGIC, sizeof MAGIC) == 0;
        return begun ? mc_part_cut_short(&r)
                     : mc_fail(MICA_EFORMAT, "%s: not a session file", name);
    }
    memcpy(&head, data, sizeof head);
    MC_TRY(check_header(model, &head, &r));
    mc_session *session;
    MC_TRY(mc_session_open(model, chunk, &session));
    mica_status status = take_session(&r, &head, session);
    if (status == MICA_OK)
        *out = session;
    else
        mc_session_close(&session);
    return status;
}

/* Rank 0 reads the file for all. */
static mica_status load_part(const mc_session_model *model, const char *path, int64_t chunk,
                             mc_session **session) {
    bool first = mica_group_rank(model->lm->group) == 0;
    mc_filemap map = {0};
    mica_status status = first ? mc_filemap_open(path, MC_FILE_SESSION, &map) : MICA_OK;
    const void *data = map.data;
    size_t size = map.size;
    status = mc_ranks_share(model->lm, status, &data, &size);
    if (status == MICA_OK) {
        status = mc_session_parse(model, data, size, path, chunk, session);
        if (!first) mc_free((void *)(uintptr_t)data);
        status = mc_group_outcome(model->lm->group, status);
    }
    if (status != MICA_OK) mc_session_close(session);
    mc_filemap_close(&map);
    return status;
}

mica_status mc_session_load(const mc_session_model *model, const char *path, int64_t chunk,
                            mc_session **session) {
    mc_filemap map = {0};
    *session = NULL;
    if (model->lm->group) return load_part(model, path, chunk, session);
    MC_TRY(mc_filemap_open(path, MC_FILE_SESSION, &map));
    mica_status status = mc_session_parse(model, map.data, map.size, path, chunk, session);
    mc_filemap_close(&map);
    return status;
}

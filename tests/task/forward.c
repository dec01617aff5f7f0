/* A pass over a model as an op: against scores and answers, bit for bit, and against finite
 * differences. */
#include "support/support.h"

#include "base/alloc.h"
#include "model/fixture.h"
#include "model/forward.h"
#include "model/own_heads.h"
#include "task/score.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_model *model; /* the default one */
static mica_scope *s;
static int64_t vocab, width;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static mica_model *open_model(const char *path, mica_arithmetic arithmetic) {
    mica_model *opened;
    must(mica_model_open(path, &(mica_model_options){.threads = 2, .arithmetic = arithmetic},
                         &opened));
    return opened;
}

static int open_default(void **state) {
    (void)state;
    mica_model_info info = {.struct_bytes = sizeof info};
    char *path = test_format("%s/default", test_models_dir());
    model = open_model(path, MICA_ARITHMETIC_DEFAULT);
    mica_model_get_info(model, &info);
    vocab = info.vocab_size;
    width = info.hidden_size;
    free(path);
    must(mica_scope_open(mica_model_device(model), &s));
    return 0;
}

static int close_default(void **state) {
    (void)state;
    mica_scope_close(&s);
    mica_model_close(&model);
    return 0;
}

static const int32_t text[] = {2, 4, 454, 262, 558, 444, 5127, 293, 5, 262};
enum { N = sizeof text / sizeof *text };

static mica_array ids_of(const int32_t *ids, int64_t rows, int64_t n) {
    return mica_from_data(s, ids, MICA_I32, (int64_t[]){rows, n}, 2);
}

/* All numbers of an array, freed with free. */
static float *read_all(mica_array x) {
    float *all = malloc(mica_array_bytes(x) + 1);
    assert_non_null(all);
    assert_int_equal(mica_array_dtype(x), MICA_F32);
    must(mica_read(x, all, mica_array_bytes(x)));
    return all;
}

static void expect_same(mica_array got, mica_array want) {
    assert_int_equal(mica_array_size(got), mica_array_size(want));
    float *a = read_all(got), *b = read_all(want);
    assert_memory_equal(a, b, mica_array_bytes(want));
    free(a);
    free(b);
}

/* Log-probabilities of the tokens of a text, by ops over its logits [1, n, vocab], are those of a
 * score. */
static void expect_score(mica_array logits, const int32_t *ids, int64_t n,
                         mica_score_result *want) {
    static const int last[] = {2};
    assert_int_equal(mica_array_dim(logits, 1), n);
    logits = mica_slice_axis(s, logits, 1, 0, n - 1);
    mica_array next = mica_from_data(s, ids + 1, MICA_I32, (int64_t[]){1, n - 1, 1}, 3);
    mica_array got = mica_subtract(s, mica_take_along_axis(s, logits, next, 2),
                                   mica_logsumexp(s, logits, last, 1, true));
    float *logprobs = read_all(got);
    assert_memory_equal(logprobs, want->logprobs + 1, (size_t)(n - 1) * sizeof *logprobs);
    free(logprobs);
    mica_score_free(&want);
}

static int fixtures; /* with a text of two tokens */

/* Of every family, quantised or not. */
static void check_fixture(const model_fixture *f) {
    const mc_session_model shared = {.lm = f->lm, .device = f->device};
    const mica_forward_options options = {.struct_bytes = sizeof options};
    size_t n = 0;
    const int32_t *ids = fixture_ints(f, &n, "prompt1.ids");
    mica_score_result *want;
    mica_scope *kept = s;
    if (!ids || n < 2) return;
    must(mica_scope_open(f->device, &s));
    must(mc_score(&shared, ids, n, &(mica_task_options){0}, &want));
    fixtures++;
    expect_score(mc_forward(s, f->lm, ids_of(ids, 1, (int64_t)n), &options, f->name), ids,
                 (int64_t)n, want);
    mica_scope_close(&s);
    s = kept;
}

static void test_score(void **state) {
    (void)state;
    mica_score_result *want;
    must(mica_score_ids(model, text, N, NULL, &want));
    expect_score(mica_model_forward(s, model, ids_of(text, 1, N), NULL), text, N, want);
    fixture_each(check_fixture);
    print_message("%d of them scored\n", fixtures);
    assert_true(fixtures > 0);
}

/* A loop of one's own over the whole text, the best token taken each time, writes the answer. */
static void test_greedy(void **state) {
    (void)state;
    enum { MORE = 12 };
    int32_t ids[N + MORE];
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    memcpy(ids, text, sizeof text);
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, text, N,
                           &(mica_generate_options){.max_tokens = MORE, .ignore_eos = true},
                           &stream));
    for (int n = N; n < N + MORE; n++) {
        mica_array last = mica_from_data(s, &(int32_t){n - 1}, MICA_I32, (int64_t[]){1}, 1);
        mica_array logits = mica_model_forward(
            s, model, ids_of(ids, 1, n),
            &(mica_forward_options){.struct_bytes = sizeof(mica_forward_options), .at = last});
        assert_int_equal(mica_array_dim(logits, 1), 1);
        int64_t best;
        must(mica_item_i64(mica_argmax(s, logits, -1, false), &best));
        assert_true(mica_stream_next(stream, &token));
        assert_int_equal(token.id, best);
        ids[n] = (int32_t)best;
        must(mica_scope_collect(s, NULL, 0));
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
}

/* Rows of a batch, chosen tokens, embeddings, hidden states with the head, and a mask of all give
 * the same bits. */
static void test_ways(void **state) {
    (void)state;
    int32_t rows[2 * N];
    bool seen[N * N];
    static const int32_t chosen[] = {7, 2};
    for (int i = 0; i < N; i++) {
        rows[i] = text[i];
        rows[N + i] = text[N - 1 - i];
    }
    memset(seen, 1, sizeof seen);
    mica_array ids = ids_of(text, 1, N), all = mica_model_forward(s, model, ids, NULL);
    mica_array both = mica_model_forward(s, model, ids_of(rows, 2, N), NULL);
    expect_same(mica_slice_axis(s, both, 0, 0, 1), all);
    mica_forward_options options = {.struct_bytes = sizeof options};
    options.at = mica_from_data(s, chosen, MICA_I32, (int64_t[]){2}, 1);
    mica_array two = mica_model_forward(s, model, ids, &options);
    for (int i = 0; i < 2; i++)
        expect_same(mica_slice_axis(s, two, 1, i, i + 1),
                    mica_slice_axis(s, all, 1, chosen[i], chosen[i] + 1));
    options = (mica_forward_options){.struct_bytes = sizeof options, .hidden = true};
    mica_array hidden = mica_model_forward(s, model, mica_model_embed(s, model, ids), &options);
    assert_int_equal(mica_array_dim(hidden, 2), width);
    expect_same(mica_model_head(s, model, hidden), all);
    options = (mica_forward_options){.struct_bytes = sizeof options};
    options.mask = mica_from_data(s, seen, MICA_BOOL, (int64_t[]){1, 1, N, N}, 4);
    expect_same(mica_model_forward(s, model, ids, &options), all);
    options.mask = MICA_NONE;
    options.position = mica_i32(s, 0);
    expect_same(mica_model_forward(s, model, mica_astype(s, ids, MICA_U32), &options), all);
}

/* Ids of any integer dtype are read by their values. */
static void test_id_dtypes(void **state) {
    (void)state;
    static const mica_dtype dtypes[] = {MICA_U16, MICA_U32, MICA_U64, MICA_I16, MICA_I64};
    mica_array ids = ids_of(text, 1, N), all = mica_model_forward(s, model, ids, NULL);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        mica_array same = mica_astype(s, ids, dtypes[i]);
        expect_same(mica_model_forward(s, model, same, NULL), all);
        expect_same(mica_model_embed(s, model, same), mica_model_embed(s, model, ids));
    }
}

/* What a mask hides is as if it were not there: a text behind another. */
static void test_mask(void **state) {
    (void)state;
    enum { FIRST = 4, SECOND = N - FIRST };
    bool seen[N * N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            seen[i * N + j] = (i < FIRST) == (j < FIRST);
    mica_forward_options options = {.struct_bytes = sizeof options};
    options.mask = mica_from_data(s, seen, MICA_BOOL, (int64_t[]){1, 1, N, N}, 4);
    mica_array both = mica_model_forward(s, model, ids_of(text, 1, N), &options);
    options.mask = MICA_NONE;
    options.position = mica_i32(s, FIRST);
    mica_array alone = mica_model_forward(s, model, ids_of(text + FIRST, 1, SECOND), &options);
    float *got = read_all(mica_slice_axis(s, both, 1, FIRST, N)), *want = read_all(alone);
    for (int64_t i = 0; i < SECOND * vocab; i++)
        if (fabsf(got[i] - want[i]) > 0.05f * (1.0f + fabsf(want[i])))
            fail_msg("%lld: %g, want %g", (long long)i, (double)got[i], (double)want[i]);
    free(got);
    free(want);
}

static mica_status record(void *user, mica_scope *in, const mica_array *args, size_t n_args,
                          mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    results[0] = mica_model_forward(in, user, args[0], NULL);
    return mica_scope_status(in);
}

/* As a compiled function, which is recorded once a length. */
static void test_function(void **state) {
    (void)state;
    mica_function *f;
    must(mica_compile(mica_model_device(model), record, model, NULL, &f));
    for (int64_t n = 3; n <= N; n += 7) {
        mica_array ids = ids_of(text, 1, n), got;
        must(mica_function_call(f, s, &ids, 1, &got, 1));
        expect_same(got, mica_model_forward(s, model, ids, NULL));
    }
    mica_function_close(&f);
}

/* ---- sessions ---- */

/* Tokens fed in parts have the bits of a whole pass, the caches can be cut and fed anew, and a
 * sampler of one's own over them writes the answer. */
static void test_session(void **state) {
    (void)state;
    enum { FIRST = 4, MORE = 10 };
    mica_session *session, *other;
    mica_stream *stream;
    mica_token token;
    mica_array got, all = mica_model_forward(s, model, ids_of(text, 1, N), NULL);
    mica_forward_options last = {.struct_bytes = sizeof last};
    int64_t left, best;
    must(mica_session_open(model, &(mica_session_options){.prefill_chunk = 3}, &session));
    must(mica_session_feed(session, s, text, FIRST, NULL, &got));
    expect_same(got, mica_slice_axis(s, all, 1, 0, FIRST));
    assert_int_equal(mica_session_count(session), FIRST);
    must(mica_session_feed(session, NULL, text + FIRST, N - FIRST, NULL, NULL));
    assert_int_equal(mica_session_count(session), N);
    must(mica_session_cut(session, 2, &left));
    assert_int_equal(left, 2);
    static const int32_t chosen[] = {6, 0, 5};
    last.at = mica_from_data(s, chosen, MICA_I32, (int64_t[]){3}, 1);
    must(mica_session_feed(session, s, text + 2, N - 2, &last, &got));
    for (int i = 0; i < 3; i++)
        expect_same(mica_slice_axis(s, got, 1, i, i + 1),
                    mica_slice_axis(s, all, 1, chosen[i] + 2, chosen[i] + 3));
    must(mica_session_cut(session, N - 1, &left));
    assert_int_equal(left, N - 1);
    must(mica_session_open(model, NULL, &other));
    must(mica_generate_ids(
        other, text, N, &(mica_generate_options){.max_tokens = MORE, .ignore_eos = true}, &stream));
    int32_t next = text[N - 1];
    for (int i = 0; i < MORE; i++) {
        must(mica_session_feed(session, s, &next, 1, NULL, &got));
        must(mica_item_i64(mica_argmax(s, got, -1, false), &best));
        assert_true(mica_stream_next(stream, &token));
        assert_int_equal(token.id, best);
        next = (int32_t)best;
    }
    mica_stream_close(&stream);
    /* The same session answers, and its stream ends where tokens are fed. */
    must(mica_session_cut(session, 0, NULL));
    assert_int_equal(mica_session_count(session), 0);
    must(mica_generate_ids(session, text, N, NULL, &stream));
    assert_true(mica_stream_next(stream, &token));
    must(mica_session_feed(session, NULL, &next, 1, NULL, NULL));
    assert_false(mica_stream_next(stream, &token));
    assert_int_equal(mica_stream_status(stream), MICA_EINVAL);
    mica_stream_close(&stream);
    mica_session_close(&other);
    mica_session_close(&session);
    must(mica_scope_collect(s, NULL, 0));
}

/* Both go on from where the session was forked, and a fork that is kept is a way back. */
static void test_fork(void **state) {
    (void)state;
    enum { FIRST = 6, REST = N - FIRST };
    int32_t other[N];
    mica_session *session, *fork, *kept;
    mica_array got, all = mica_model_forward(s, model, ids_of(text, 1, N), NULL);
    memcpy(other, text, sizeof other);
    other[FIRST] = 77;
    mica_array others = mica_model_forward(s, model, ids_of(other, 1, N), NULL);
    must(mica_session_open(model, NULL, &session));
    must(mica_session_feed(session, NULL, text, FIRST, NULL, NULL));
    must(mica_session_fork(session, &kept));
    must(mica_session_fork(session, &fork));
    assert_int_equal(mica_session_count(fork), FIRST);
    must(mica_session_feed(fork, s, other + FIRST, REST, NULL, &got));
    expect_same(got, mica_slice_axis(s, others, 1, FIRST, N));
    must(mica_session_feed(session, s, text + FIRST, REST, NULL, &got));
    expect_same(got, mica_slice_axis(s, all, 1, FIRST, N));
    mica_session_close(&session);
    mica_session_close(&fork);
    assert_int_equal(mica_session_count(kept), FIRST);
    must(mica_session_feed(kept, s, text + FIRST, REST, NULL, &got));
    expect_same(got, mica_slice_axis(s, all, 1, FIRST, N));
    assert_int_equal(mica_session_fork(NULL, &fork), MICA_EINVAL);
    assert_int_equal(mica_session_fork(kept, NULL), MICA_EINVAL);
    assert_null(fork);
    mica_session_close(&kept);
    must(mica_scope_collect(s, NULL, 0));
}

/* ---- a cache of one's own ---- */

enum { OWN_LAYERS = 64 };

typedef struct own_cache {
    mica_scope *scope;              /* of what is kept */
    mica_array kept[OWN_LAYERS][2]; /* MICA_NONE: nothing so far */
    mica_array next[OWN_LAYERS][2]; /* as the pass leaves them; MICA_NONE: it does not */
    int64_t last, broken;           /* the layer before; the layer that gives too little, or -1 */
    int calls;
} own_cache;

static mica_status update(void *user, mica_scope *scope, int64_t layer, mica_array k, mica_array v,
                          mica_kv *seen) {
    own_cache *c = user;
    const mica_array chunk[] = {k, v};
    assert_true(layer > c->last && layer < OWN_LAYERS);
    c->last = layer;
    c->calls++;
    for (int i = 0; i < 2; i++) {
        const mica_array both[] = {c->kept[layer][i], chunk[i]};
        c->next[layer][i] = both[0].scope ? mica_concatenate(scope, both, 2, 2) : chunk[i];
    }
    *seen = (mica_kv){.k = c->next[layer][0], .v = c->next[layer][1]};
    if (layer == c->broken) seen->k = mica_slice_axis(scope, k, 3, 0, 1);
    return c->calls == 1000 ? mc_fail(MICA_EIO, "no more") : MICA_OK;
}

/* Keeps what a pass left, and drops all else. */
static void keep_next(own_cache *c) {
    c->last = -1;
    for (int layer = 0; layer < OWN_LAYERS; layer++)
        for (int i = 0; i < 2 && c->next[layer][0].scope; i++) {
            mica_array whole = mica_contiguous(s, c->next[layer][i]);
            must(mica_eval(s, whole));
            c->kept[layer][i] = mica_materialize(c->scope, whole);
        }
    must(mica_scope_status(c->scope));
}

/* A text in chunks over a cache of one's own has the logits of the whole text. */
static void check_store(const mica_model *which, int layers) {
    static const int chunks[] = {3, 1, 4, 1, 1};
    mica_scope *before = s;
    own_cache c = {.last = -1, .broken = -1};
    const mica_kv_store store = {update, &c};
    mica_forward_options options = {.struct_bytes = sizeof options, .store = &store};
    must(mica_scope_open(mica_model_device(which), &s));
    must(mica_scope_open(mica_model_device(which), &c.scope));
    int32_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = text[i] % 440;
    mica_array all = mica_model_forward(s, which, ids_of(ids, 1, N), NULL);
    for (size_t i = 0, at = 0; i < sizeof chunks / sizeof *chunks; at += (size_t)chunks[i++]) {
        options.position = mica_i32(s, (int32_t)at);
        c.calls = 0;
        mica_array got = mica_model_forward(s, which, ids_of(ids + at, 1, chunks[i]), &options);
        assert_int_equal(c.calls, layers);
        expect_same(got, mica_slice_axis(s, all, 1, (int64_t)at, (int64_t)at + chunks[i]));
        keep_next(&c);
    }
    mica_scope_close(&c.scope);
    mica_scope_close(&s);
    s = before;
}

static void test_store(void **state) {
    (void)state;
    mica_model_info info = {.struct_bytes = sizeof info};
    char *folder = own_model(&own_heads, OWN_HEADS_CONFIG("true"));
    mica_model *heads = open_model(folder, MICA_ARITHMETIC_EXACT);
    mica_model_get_info(model, &info);
    check_store(model, (int)info.layers);
    check_store(heads, OWN_HEADS_LAYERS - 2); /* two layers share what others have */
    mica_model_close(&heads);
    test_temp_dir_remove(folder);
}

/* Returns how often the store was asked. */
static int expect_store_error(const mica_model *which, own_cache c, bool masked, mica_status want,
                              const char *why) {
    int before_calls = c.calls;
    mica_scope *before = s;
    bool seen[4] = {true, true, true, true};
    const mica_kv_store store = {c.calls < 0 ? NULL : update, &c};
    mica_forward_options options = {.struct_bytes = sizeof options, .store = &store};
    must(mica_scope_open(mica_model_device(which), &s));
    if (masked) options.mask = mica_from_data(s, seen, MICA_BOOL, (int64_t[]){1, 1, 2, 2}, 4);
    (void)mica_model_forward(s, which, ids_of(text, 1, 2), &options);
    assert_int_equal(mica_scope_status(s), want);
    if (!strstr(mica_last_error(), why)) fail_msg("%s: want %s", mica_last_error(), why);
    mica_scope_close(&s);
    s = before;
    return c.calls - before_calls;
}

static void test_store_refused(void **state) {
    (void)state;
    char *path = test_format("%s/families/lfm2_hf", test_cases_dir());
    char *copy = fixture_copy_folder(path, "config.json", NULL, NULL);
    char *from = fixture_path("llama3_rope_sharded/tokenizer.json");
    char *to = test_format("%s/tokenizer.json", copy);
    test_copy_file(from, to);
    mica_model *hybrid = open_model(copy, MICA_ARITHMETIC_EXACT);
    own_cache good = {.last = -1, .broken = -1}, broken = good, failing = good, none = good;
    broken.broken = 1;
    failing.calls = 999;
    none.calls = -1;
    int calls = expect_store_error(hybrid, good, false, MICA_EUNSUPPORTED, "more than keys and");
    assert_int_equal(calls, 0);
    calls = expect_store_error(model, broken, false, MICA_ESHAPE, "layer 1: k and v are not");
    assert_int_equal(calls, 2);
    calls = expect_store_error(model, failing, false, MICA_EIO, "no more");
    assert_int_equal(calls, 1); /* it is not asked again */
    expect_store_error(model, none, false, MICA_EINVAL, "no update");
    expect_store_error(model, good, true, MICA_EINVAL, "mask");
    mica_session *session;
    const mica_kv_store store = {update, &good};
    const mica_forward_options options = {.struct_bytes = sizeof options, .store = &store};
    must(mica_session_open(model, NULL, &session));
    assert_int_equal(mica_session_feed(session, NULL, text, 2, &options, NULL), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "store: the session has it"));
    mica_session_close(&session);
    mica_model_close(&hybrid);
    test_temp_dir_remove(copy);
    free(from);
    free(to);
    free(path);
}

/* Layers that read ids have none in embeddings. */
static void test_embeddings_refused(void **state) {
    (void)state;
    char *path = test_format("%s/families/gemma4_e_hf", test_cases_dir());
    char *copy = fixture_copy_folder(path, "config.json", NULL, NULL);
    char *from = fixture_path("llama3_rope_sharded/tokenizer.json");
    char *to = test_format("%s/tokenizer.json", copy);
    test_copy_file(from, to);
    mica_model *gemma = open_model(copy, MICA_ARITHMETIC_EXACT);
    mica_scope *before = s;
    must(mica_scope_open(mica_model_device(gemma), &s));
    (void)mica_model_forward(s, gemma, mica_model_embed(s, gemma, ids_of(text, 1, 2)), NULL);
    assert_int_equal(mica_scope_status(s), MICA_EUNSUPPORTED);
    assert_non_null(strstr(mica_last_error(), "the ids of tokens"));
    mica_scope_close(&s);
    s = before;
    mica_model_close(&gemma);
    test_temp_dir_remove(copy);
    free(from);
    free(to);
    free(path);
}

static void test_session_refused(void **state) {
    (void)state;
    mica_session *session;
    mica_array got;
    int32_t past = (int32_t)vocab;
    mica_forward_options options = {.struct_bytes = sizeof options};
    must(mica_session_open(model, NULL, &session));
    assert_int_equal(mica_session_feed(NULL, s, text, 1, NULL, &got), MICA_EINVAL);
    assert_int_equal(mica_session_feed(session, NULL, text, 1, NULL, &got), MICA_EINVAL);
    assert_int_equal(mica_session_feed(session, s, text, 0, NULL, &got), MICA_EINVAL);
    assert_int_equal(mica_session_feed(session, s, &past, 1, NULL, &got), MICA_EINVAL);
    assert_false(mica_valid(got));
    options.position = mica_i32(s, 3);
    assert_int_equal(mica_session_feed(session, s, text, 1, &options, &got), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "position"));
    options.position = MICA_NONE;
    options.at = mica_from_data(s, (int32_t[]){1}, MICA_I32, (int64_t[]){1}, 1);
    assert_int_equal(mica_session_feed(session, s, text, 1, &options, &got), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "at[0]"));
    assert_int_equal(mica_session_cut(session, 1, NULL), MICA_EINVAL);
    assert_int_equal(mica_session_cut(NULL, 0, NULL), MICA_EINVAL);
    assert_int_equal(mica_session_count(NULL), 0);
    mica_session_close(&session);
}

static bool try_feed(void *user) {
    mica_session *session = NULL;
    mica_scope *own = NULL;
    mica_array got;
    (void)user;
    mica_status status = mica_session_open(model, NULL, &session);
    if (status == MICA_OK) status = mica_scope_open(mica_model_device(model), &own);
    if (status == MICA_OK) status = mica_session_feed(session, own, text, 3, NULL, &got);
    if (status == MICA_OK) status = mica_session_cut(session, 1, NULL);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_scope_close(&own);
    mica_session_close(&session);
    return status == MICA_OK;
}

static void test_session_memory(void **state) {
    (void)state;
    test_fail_each_allocation(try_feed, NULL);
}

/* ---- gradients ---- */

static mica_array loss_of(mica_array logits, const int32_t *ids, int64_t n) {
    mica_array targets = mica_from_data(s, ids + 1, MICA_I32, (int64_t[]){1, n - 1}, 2);
    return mica_mean(s, mica_cross_entropy(s, mica_slice_axis(s, logits, 1, 0, n - 1), targets),
                     NULL, 0, false);
}

/* The difference quotient of a loss by number i of x. */
static double quotient(mica_array x, size_t i, double step,
                       double (*loss)(mica_array x, void *user), void *user) {
    double sides[2];
    float *values = read_all(x), kept = values[i];
    for (int k = 0; k < 2; k++) {
        values[i] = kept + (float)(k ? step : -step);
        sides[k] = loss(
            mica_from_data(s, values, MICA_F32, mica_array_shape(x), mica_array_ndim(x)), user);
    }
    free(values);
    return (sides[1] - sides[0]) / (2 * step);
}

static double embedded_loss(mica_array x, void *user) {
    double loss;
    must(mica_item_f64(loss_of(mica_model_forward(s, user, x, NULL), text, N), &loss));
    return loss;
}

static void check_quotients(mica_array x, mica_array grad, double step,
                            double (*loss)(mica_array x, void *user), void *user) {
    float *g = read_all(grad);
    size_t n = (size_t)mica_array_size(x), largest = 0;
    assert_int_equal(mica_array_size(grad), n);
    for (size_t i = 0; i < n; i++)
        if (fabsf(g[i]) > fabsf(g[largest])) largest = i;
    assert_true(fabsf(g[largest]) > 0.0f);
    for (size_t k = 0; k < 4; k++) {
        size_t i = (largest + k * (n / 4 + 1)) % n;
        double got = (double)g[i], want = quotient(x, i, step, loss, user);
        if (fabs(got - want) > 0.02 * fabs(want) + 0.01 * fabs((double)g[largest]))
            fail_msg("%zu: %g, by differences %g", i, got, want);
    }
    free(g);
}

/* By embeddings, of a quantised model with exact arithmetic. */
static void test_gradient(void **state) {
    (void)state;
    char *path = test_format("%s/default", test_models_dir());
    mica_model *exact = open_model(path, MICA_ARITHMETIC_EXACT);
    mica_scope *kept = s;
    must(mica_scope_open(mica_model_device(exact), &s));
    mica_array grad, x = mica_model_embed(s, exact, ids_of(text, 1, N));
    must(mica_eval(s, x));
    mica_array loss = loss_of(mica_model_forward(s, exact, x, NULL), text, N);
    must(mica_grad(s, loss, MICA_NONE, &x, 1, &grad));
    check_quotients(x, grad, 0.02, embedded_loss, exact);
    mica_scope_close(&s);
    mica_model_close(&exact);
    s = kept;
    free(path);
}

typedef struct training {
    mica_tuner *tuner;
    mica_array params[64];
    size_t n, at;
} training;

static double tuned_loss(mica_array x, void *user) {
    training *t = user;
    double loss;
    mica_array kept = t->params[t->at];
    t->params[t->at] = x;
    must(mica_item_f64(
        loss_of(mica_tuner_forward(s, t->tuner, t->params, ids_of(text, 1, N), NULL), text, N),
        &loss));
    t->params[t->at] = kept;
    return loss;
}

/* By the factors of an adapter, and by steps of one's own they lessen the loss. */
static void test_tuner(void **state) {
    (void)state;
    training t = {.at = 1};
    char *path = test_format("%s/default", test_models_dir());
    mica_scope *kept = s;
    mica_array grads[64];
    mica_optimizer *optimizer;
    double first = 0, last = 0;
    must(mica_tuner_open(
        path, &(mica_tuner_options){.threads = 2, .arithmetic = MICA_ARITHMETIC_EXACT}, &t.tuner));
    must(mica_scope_open(mica_tuner_device(t.tuner), &s));
    mica_array none = mica_tuner_forward(s, t.tuner, NULL, ids_of(text, 1, N), NULL);
    assert_int_equal(mica_eval(s, none), MICA_EINVAL);
    mica_scope_close(&s);
    must(mica_scope_open(mica_tuner_device(t.tuner), &s));
    must(mica_lora_apply(t.tuner, &(mica_lora_options){.rank = 2, .layers = 1}));
    t.n = mica_tuner_parameter_count(t.tuner);
    assert_in_range(t.n, 2, 64);
    for (size_t i = 0; i < t.n; i++) {
        mica_parameter p = {.struct_bytes = sizeof p};
        must(mica_tuner_get_parameter(t.tuner, i, &p));
        t.params[i] = mica_detach(s, p.value);
    }
    /* The factors B are zero: it is the model yet. */
    mica_array own = mica_tuner_forward(s, t.tuner, NULL, ids_of(text, 1, N), NULL);
    expect_same(mica_tuner_forward(s, t.tuner, t.params, ids_of(text, 1, N), NULL), own);
    must(mica_optimizer_open(mica_tuner_device(t.tuner), &(mica_optimizer_options){.name = "adam"},
                             &optimizer));
    for (int step = 0; step < 5; step++) {
        mica_array loss =
            loss_of(mica_tuner_forward(s, t.tuner, t.params, ids_of(text, 1, N), NULL), text, N);
        must(mica_grad(s, loss, MICA_NONE, t.params, t.n, grads));
        must(mica_item_f64(loss, &last));
        if (step == 0) check_quotients(t.params[1], grads[1], 0.02, tuned_loss, &t);
        if (step == 0) first = last;
        must(mica_optimizer_update(optimizer, s, t.params, grads, t.n, 0.02, t.params));
    }
    if (!(last < 0.8 * first)) fail_msg("the loss goes from %g to %g", first, last);
    mica_array bad = mica_f32(s, 1.0f);
    t.params[0] = bad;
    none = mica_tuner_forward(s, t.tuner, t.params, ids_of(text, 1, N), NULL);
    assert_int_equal(mica_eval(s, none), MICA_ESHAPE);
    mica_optimizer_close(&optimizer);
    mica_scope_close(&s);
    mica_tuner_close(&t.tuner);
    s = kept;
    free(path);
}

/* A pass of a tuner in a scope of its own, with its parameters, or with those of another scope. */
static mica_status pass_once(mica_tuner *tuner, const mica_array *params) {
    mica_scope *own;
    MC_TRY(mica_scope_open(mica_tuner_device(tuner), &own));
    mica_array ids = mica_from_data(own, text, MICA_I32, (int64_t[]){1, 2}, 2);
    mica_status status = mica_eval(own, mica_tuner_forward(own, tuner, params, ids, NULL));
    mica_scope_close(&own);
    return status;
}

static bool try_tuned(void *tuner) {
    mica_status status = pass_once(tuner, NULL);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

/* Passes that fail keep no memory. */
static void test_tuner_refused(void **state) {
    (void)state;
    enum { TIMES = 20 };
    char *path = test_format("%s/default", test_models_dir());
    mica_tuner *tuner;
    mica_array params[64];
    mica_scope *other;
    must(mica_tuner_open(path, &(mica_tuner_options){.threads = 1}, &tuner));
    must(mica_scope_open(mica_tuner_device(tuner), &other));
    must(mica_lora_apply(tuner, &(mica_lora_options){.rank = 2, .layers = 1}));
    size_t n = mica_tuner_parameter_count(tuner), before = 0;
    assert_in_range(n, 2, 64);
    for (size_t i = 0; i < n; i++) {
        mica_parameter p = {.struct_bytes = sizeof p};
        must(mica_tuner_get_parameter(tuner, i, &p));
        params[i] = mica_square(other, p.value); /* not evaluated */
    }
    for (int i = 0; i < 2 * TIMES; i++) {
        if (i == TIMES) before = test_heap_bytes();
        assert_int_equal(pass_once(tuner, params), MICA_EINVAL);
    }
    assert_in_range(test_heap_bytes(), 0, before + TIMES * 1000);
    mica_scope_close(&other);
    test_fail_each_allocation(try_tuned, tuner);
    mica_tuner_close(&tuner);
    free(path);
}

/* ---- what is refused ---- */

static void expect_error(mica_array x, mica_status status, const char *word) {
    assert_false(mica_valid(x));
    assert_int_equal(mica_scope_status(s), status);
    if (!strstr(mica_last_error(), word)) fail_msg("\"%s\" lacks %s", mica_last_error(), word);
    mica_scope_close(&s);
    must(mica_scope_open(mica_model_device(model), &s));
}

/* Layers that carry more than keys and values would carry it past a mask. */
static void test_mask_refused(void **state) {
    (void)state;
    static const unsigned char seen[] = {1, 0, 0, 1};
    char *path = test_format("%s/families/lfm2_hf", test_cases_dir());
    char *copy = fixture_copy_folder(path, "config.json", NULL, NULL);
    char *from = fixture_path("llama3_rope_sharded/tokenizer.json");
    char *to = test_format("%s/tokenizer.json", copy);
    test_copy_file(from, to);
    mica_model *hybrid = open_model(copy, MICA_ARITHMETIC_EXACT);
    mica_scope *before = s;
    must(mica_scope_open(mica_model_device(hybrid), &s));
    const mica_forward_options options = {
        .struct_bytes = sizeof options,
        .mask = mica_from_data(s, seen, MICA_BOOL, (int64_t[]){1, 1, 2, 2}, 4)};
    expect_error(mica_model_forward(s, hybrid, ids_of(text, 1, 2), &options), MICA_EUNSUPPORTED,
                 "more than keys and values");
    mica_scope_close(&s);
    s = before;
    mica_model_close(&hybrid);
    test_temp_dir_remove(copy);
    free(path);
    free(from);
    free(to);
}

/* Ids past the vocabulary are no ids of it by their low bits, and none counts from the end; nor do
 * the tokens of `at`. */
static void check_past_ids(void) {
    static const struct {
        int64_t id;
        mica_dtype dtype;
    } past[] = {{4294967295, MICA_U32}, {4294967301, MICA_I64}, {4294967301, MICA_U64},
                {INT64_MIN, MICA_I64},  {-1, MICA_U64},         {-1, MICA_I64},
                {-1, MICA_I32},         {-1, MICA_I16},         {-1, MICA_I8}};
    for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
        mica_array id = mica_from_data(s, &past[i].id, MICA_I64, (int64_t[]){1, 1}, 2);
        id = mica_astype(s, id, past[i].dtype);
        assert_int_equal(mica_eval(s, mica_model_forward(s, model, id, NULL)), MICA_EINVAL);
        assert_int_equal(mica_eval(s, mica_model_embed(s, model, id)), MICA_EINVAL);
    }
    mica_forward_options options = {.struct_bytes = sizeof options};
    for (int32_t at = -1; at <= N; at += N + 1) {
        options.at = mica_from_data(s, &at, MICA_I32, (int64_t[]){1}, 1);
        mica_array y = mica_model_forward(s, model, ids_of(text, 1, N), &options);
        assert_int_equal(mica_eval(s, y), MICA_EINVAL);
    }
}

static void test_refused(void **state) {
    (void)state;
    const mica_forward_options none = {.struct_bytes = sizeof none};
    expect_error(mica_model_forward(s, NULL, ids_of(text, 1, N), NULL), MICA_EINVAL, "NULL");
    assert_false(mica_valid(mica_model_forward(NULL, model, MICA_NONE, NULL)));
    expect_error(mica_model_forward(s, model, MICA_NONE, NULL), MICA_EINVAL, "ids");
    expect_error(mica_model_forward(s, model, mica_i32(s, 3), NULL), MICA_ESHAPE, "axes");
    expect_error(
        mica_model_forward(s, model, mica_from_data(s, text, MICA_I32, (int64_t[]){1, 0}, 2), NULL),
        MICA_ESHAPE, "no tokens");
    expect_error(mica_model_forward(s, model, mica_astype(s, ids_of(text, 1, N), MICA_F32), NULL),
                 MICA_EDTYPE, "integers");
    expect_error(
        mica_model_forward(s, model, mica_zeros(s, (int64_t[]){1, 2, 3}, 3, MICA_F32), NULL),
        MICA_ESHAPE, "embeddings");
    expect_error(mica_model_head(s, model, mica_zeros(s, (int64_t[]){3}, 1, MICA_F32)), MICA_ESHAPE,
                 "hidden");
    expect_error(mica_model_embed(s, model, mica_f32(s, 1)), MICA_ESHAPE, "ids");
    mica_forward_options options = none;
    options.at = ids_of(text, 1, N);
    expect_error(mica_model_forward(s, model, ids_of(text, 1, N), &options), MICA_ESHAPE, "at");
    options = none;
    options.position = mica_f32(s, 0);
    expect_error(mica_model_forward(s, model, ids_of(text, 1, N), &options), MICA_EDTYPE,
                 "position");
    options = none;
    options.mask = mica_zeros(s, (int64_t[]){1, 1, N, 2}, 4, MICA_BOOL);
    expect_error(mica_model_forward(s, model, ids_of(text, 1, N), &options), MICA_ESHAPE, "mask");
    const int32_t past[] = {(int32_t)vocab};
    assert_int_equal(mica_eval(s, mica_model_forward(s, model, ids_of(past, 1, 1), NULL)),
                     MICA_EINVAL);
    check_past_ids();
    mica_device *other;
    must(mica_device_open("cpu", NULL, &other));
    mica_scope *kept = s;
    must(mica_scope_open(other, &s));
    assert_false(mica_valid(mica_model_forward(s, model, ids_of(text, 1, N), NULL)));
    assert_non_null(strstr(mica_last_error(), "another device"));
    mica_scope_close(&s);
    mica_device_close(&other);
    s = kept;
}

static bool try_pass(void *user) {
    (void)user;
    mica_scope *kept = s;
    if (mica_scope_open(mica_model_device(model), &s) != MICA_OK) {
        s = kept;
        return false;
    }
    mica_status status = mica_eval(s, mica_model_forward(s, model, ids_of(text, 1, 3), NULL));
    mica_scope_close(&s);
    s = kept;
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    assert_true(try_pass(NULL));
    test_fail_each_allocation(try_pass, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_id_dtypes),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_mask_refused),
        cmocka_unit_test(test_function),
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_tuner),
        cmocka_unit_test(test_tuner_refused),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_store_refused),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_session_refused),
        cmocka_unit_test(test_embeddings_refused),
        cmocka_unit_test(test_session_memory),
    };
    return cmocka_run_group_tests_name("task/forward", tests, open_default, close_default);
}

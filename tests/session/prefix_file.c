/* Prefixes in files: a pool that loads what another one has saved goes on from the same texts, with
 * the same bits; files that are damaged or another model's are refused and change nothing. */
#include "model/fixture.h"

#include "session/file_parts.h"
#include "session/prefix_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, CHUNK = 64, MAX_TEXT = 400, HEADER_WORDS = 12 };

static char *folder;

static int make_folder(void **state) {
    (void)state;
    folder = test_temp_dir();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    test_temp_dir_remove(folder);
    return 0;
}

typedef struct world {
    model_fixture f;
    mc_session_model model;
    uint64_t random;
} world;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* blocks  of each group, of a pool with one part and nothing else; 0: there is much room */
static void open_pool(world *w, int64_t blocks) {
    mc_kv_pool_options options = {
        .bytes = 1 << 24, .block = BLOCK, .keep = true, .context = w->model.context};
    mc_kv_pool *pool;
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &pool));
    if (!blocks) {
        w->model.pool = pool;
        return;
    }
    options.bytes = pool->parts->block_bytes * (uint64_t)(blocks * pool->n_groups);
    mc_kv_pool_close(&pool);
    must(mc_kv_pool_open(w->f.lm, w->f.device, &options, &w->model.pool));
}

static void open_world(world *w, const char *model, mica_cache_type cache, int64_t blocks) {
    *w = (world){.random = 7};
    if (!mc_prefix_available()) skip();
    fixture_open(model, &w->f);
    mc_lm_set_cache(w->f.lm, cache);
    w->model = (mc_session_model){.lm = w->f.lm, .device = w->f.device};
    open_pool(w, blocks);
}

static void close_world(world *w) {
    mc_kv_pool_close(&w->model.pool);
    fixture_close(&w->f);
}

static void make_text(world *w, int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = (int32_t)((w->random >> 33) % (uint64_t)w->f.lm->spec.vocab);
    }
}

/* Reads a prompt and forgets it; returns how many tokens were known. The last logits, [vocab] to be
 * freed, go into *logits if that is not NULL. */
static int64_t ask(const mc_session_model *model, const char *salt, const int32_t *ids, int64_t n,
                   float **logits) {
    size_t bytes = (size_t)model->lm->spec.vocab * sizeof(float);
    const float *last = NULL;
    mc_session *session;
    must(mc_session_open(model, CHUNK, &session));
    if (model->pool) mc_session_set_salt(session, salt);
    int64_t at = mc_session_reuse(session, ids, n), known = at;
    for (int64_t step; at < n; at += step) {
        step = n - at < CHUNK ? n - at : CHUNK;
        must(mc_session_feed(session, ids + at, step, &last));
    }
    if (logits) {
        *logits = malloc(bytes);
        assert_non_null(*logits);
        memcpy(*logits, last, bytes);
    }
    mc_session_close(&session);
    return known;
}

/* Fails unless a prompt has the bits of one without a pool; returns how many tokens were known. */
static int64_t expect_same(world *w, const char *salt, const int32_t *ids, int64_t n) {
    mc_session_model plain = w->model;
    float *got, *want;
    plain.pool = NULL;
    int64_t known = ask(&w->model, salt, ids, n, &got);
    (void)ask(&plain, salt, ids, n, &want);
    fixture_compare(got, want, (size_t)w->f.lm->spec.vocab, fixture_same(&w->f), "%s: %lld known",
                    w->f.name, (long long)known);
    free(got);
    free(want);
    return known;
}

/* Every block has as many references as entries name it. */
static void check_accounts(const world *w) {
    mc_kv_pool *pool = w->model.pool;
    uint32_t *refs = calloc((size_t)pool->blocks, sizeof *refs);
    int32_t entries = 0;
    assert_non_null(refs);
    for (int32_t e = pool->prefixes.newest; e >= 0; e = pool->prefixes.entries[e].older, entries++)
        for (int g = 0; g < pool->n_groups; g++) {
            int32_t id = mc_prefix_blocks(&pool->prefixes, e)[g];
            if (id >= 0) refs[id]++;
        }
    for (const mc_kv_part *part = pool->parts; part < pool->parts + pool->n_parts; part++) {
        int32_t unused = 0;
        for (int32_t i = part->first; i < part->end; i++) {
            assert_int_equal(refs[i], pool->refs[i]);
            unused += refs[i] == 0;
        }
        assert_int_equal(unused, part->n_free);
    }
    assert_int_equal(entries, pool->prefixes.count);
    assert_int_equal(mc_kv_pool_available(pool), pool->blocks);
    free(refs);
}

static char *save(const world *w) {
    char *path = test_format("%s/prefixes", folder);
    must(mc_prefix_file_save(&w->model, path));
    return path;
}

/* ---- saved and loaded ---- */

typedef struct life {
    const char *model;
    mica_cache_type cache;
} life;

static void a_new_pool_knows_the_texts(void **state) {
    (void)state;
    static const life lives[] = {
        {"qwen3_tied", MICA_CACHE_F32},
        {"q4g64_qwen3", MICA_CACHE_BF16},
        {"gemma3_text_f32", MICA_CACHE_INT8}, /* windows */
        {"gemma2_f32", MICA_CACHE_F16},
    };
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        world w;
        int32_t one[MAX_TEXT], two[MAX_TEXT];
        int64_t tokens;
        open_world(&w, lives[i].model, lives[i].cache, 60);
        make_text(&w, one, 300);
        make_text(&w, two, 200);
        memcpy(two, one, 100 * sizeof *two);
        (void)ask(&w.model, "", one, 300, NULL);
        (void)ask(&w.model, "", two, 200, NULL);
        (void)ask(&w.model, "tenant", two, 90, NULL);
        char *path = save(&w);
        mc_kv_pool_close(&w.model.pool);
        open_pool(&w, 60);
        must(mc_prefix_file_load(&w.model, path, &tokens));
        check_accounts(&w);
        /* 9 blocks of one, of two those behind 3, and 2 of the tenant's */
        assert_int_equal(tokens, BLOCK * (9 + 3 + 2));
        one[299]++; /* the end of a text is kept for windows, too */
        assert_int_equal(expect_same(&w, "", one, 300), 288);
        assert_int_equal(expect_same(&w, "", two, 200), 192);
        assert_int_equal(expect_same(&w, "tenant", two, 200), 64);
        assert_int_equal(expect_same(&w, "another", two, 200), 0);
        check_accounts(&w);
        must(mc_prefix_file_load(&w.model, path, &tokens)); /* all is known */
        assert_int_equal(tokens, 0);
        check_accounts(&w);
        free(path);
        close_world(&w);
    }
}

static void count_stored(void *user, mc_prefix_hash seed, const mc_kv_name *before,
                         const int32_t *ids, int64_t count, mc_kv_name *name) {
    (void)seed, (void)before, (void)ids, (void)count, (void)name;
    ++*(int *)user;
}

/* A pool that is too small takes the texts used last, and the beginnings of these first. Events
 * tell of what came from a file when a text begins with it: its tokens are known then. */
static void small_pools_take_the_latest(void **state) {
    (void)state;
    world w;
    int32_t one[MAX_TEXT], two[MAX_TEXT];
    int64_t tokens;
    open_world(&w, "qwen3_tied", MICA_CACHE_F32, 60);
    make_text(&w, one, 300);
    make_text(&w, two, 200);
    (void)ask(&w.model, "", one, 300, NULL);
    (void)ask(&w.model, "", two, 200, NULL);
    char *path = save(&w);
    mc_kv_pool_close(&w.model.pool);
    open_pool(&w, 10);
    must(mc_prefix_file_load(&w.model, path, &tokens));
    check_accounts(&w);
    assert_int_equal(tokens, 10 * BLOCK);
    assert_int_equal(expect_same(&w, "", two, 200), 192);
    mc_kv_pool_close(&w.model.pool);
    open_pool(&w, 20);
    int stored = 0;
    w.model.pool->events = (mc_kv_events){.stored = count_stored, .user = &stored};
    must(mc_prefix_file_load(&w.model, path, &tokens));
    assert_int_equal(stored, 0);
    assert_int_equal(expect_same(&w, "", one, 300), 288);
    assert_int_equal(stored, 288 / BLOCK);
    free(path);
    close_world(&w);
}

/* More blocks than a piece of the file has. */
static void many_blocks(void **state) {
    (void)state;
    enum { TEXTS = 40, LENGTH = 230 };
    world w;
    int32_t text[MAX_TEXT];
    int64_t tokens, known = 0;
    open_world(&w, "qwen3_tied", MICA_CACHE_F32, 400);
    for (int i = 0; i < TEXTS; i++) {
        make_text(&w, text, LENGTH);
        (void)ask(&w.model, "", text, LENGTH, NULL);
    }
    char *path = save(&w);
    mc_kv_pool_close(&w.model.pool);
    open_pool(&w, 400);
    must(mc_prefix_file_load(&w.model, path, &tokens));
    assert_int_equal(tokens, TEXTS * (LENGTH / BLOCK * BLOCK));
    w.random = 7;
    for (int i = 0; i < TEXTS; i++) {
        make_text(&w, text, LENGTH);
        if (i % 9 == 0) known += expect_same(&w, "", text, LENGTH);
    }
    assert_int_equal(known, 5 * (LENGTH / BLOCK * BLOCK));
    free(path);
    close_world(&w);
}

/* What a pool knows of two texts, another one knows from its file. */
static void check_context(const model_fixture *f, int64_t context) {
    world w = {.random = 7, .f = *f};
    int32_t one[MAX_TEXT], two[MAX_TEXT];
    int64_t tokens, known[2];
    w.model = (mc_session_model){.lm = f->lm, .device = f->device, .context = context};
    open_pool(&w, 0);
    assert_true(w.model.pool->keeps);
    make_text(&w, one, 150);
    make_text(&w, two, 120);
    memcpy(two, one, 70 * sizeof *two);
    (void)ask(&w.model, "", one, 150, NULL);
    (void)ask(&w.model, "", two, 120, NULL);
    char *path = save(&w);
    known[0] = ask(&w.model, "", one, 150, NULL);
    known[1] = ask(&w.model, "", two, 120, NULL);
    assert_true(known[0] > 0 && known[1] > 0);
    mc_kv_pool_close(&w.model.pool);
    open_pool(&w, 0);
    must(mc_prefix_file_load(&w.model, path, &tokens));
    check_accounts(&w);
    assert_true(tokens > 0);
    assert_int_equal(expect_same(&w, "", one, 150), known[0]);
    assert_int_equal(expect_same(&w, "", two, 120), known[1]);
    must(mc_prefix_file_load(&w.model, path, &tokens));
    assert_int_equal(tokens, 0);
    mc_kv_pool_close(&w.model.pool);
    free(path);
}

static void check_family(const model_fixture *f) {
    check_context(f, 0);
    check_context(f, 40);
}

static void every_family(void **state) {
    (void)state;
    if (!mc_prefix_available()) skip();
    fixture_each(check_family);
}

/* A pool with room for fewer snapshots keeps those of the texts used last. */
static void fewer_snapshots(void **state) {
    (void)state;
    enum { TEXTS = 5 };
    world w;
    int32_t texts[TEXTS][MAX_TEXT];
    int64_t tokens;
    open_world(&w, "../families/lfm2_hf", MICA_CACHE_F32, 0);
    for (int i = 0; i < TEXTS; i++) {
        make_text(&w, texts[i], 40);
        (void)ask(&w.model, "", texts[i], 40, NULL);
    }
    char *path = save(&w);
    mc_kv_pool_close(&w.model.pool);
    open_pool(&w, 0);
    mc_snapshots *s = &w.model.pool->snapshots;
    uint64_t all = (uint64_t)s->known.max;
    assert_true(all > 2);
    mc_snapshots_deinit(s);
    mc_state_plan plan = w.model.pool->plan;
    assert_true(mc_snapshots_plan(s, &plan, w.f.lm));
    must(mc_snapshots_init(s, w.f.device, 2));
    must(mc_prefix_file_load(&w.model, path, &tokens));
    assert_int_equal(tokens, TEXTS * BLOCK);
    assert_int_equal(s->known.count, 2);
    for (int i = TEXTS - 1; i >= 0; i--)
        assert_int_equal(expect_same(&w, "", texts[i], 40), i >= TEXTS - 2 ? BLOCK : 0);
    free(path);
    close_world(&w);
}

/* ---- version 1 ---- */

/* Sets what says who computed a file to what this library says. */
static void adopt_file(const world *w, char *data, size_t size) {
    size_t other_size;
    char *path = save(w), *own = test_read_file(path, &other_size);
    memcpy(data + 24, own + 24, 8);
    uint64_t sum = mc_session_checksum(data, size - 8);
    memcpy(data + size - 8, &sum, sizeof sum);
    free(path);
    free(own);
}

/* A file of mica of November 2026, of two texts of 70 tokens: its keys are sums of AVX-512's
 * kernels. */
static void an_old_file(void **state) {
    (void)state;
    world w;
    int32_t text[MAX_TEXT];
    int64_t tokens;
    size_t size;
    open_world(&w, "gemma3_text_f32", MICA_CACHE_F32, 20);
    char *path = test_format("%s/../../sessions/gemma3_text_f32.prefixes", w.f.path);
    char *data = test_read_file(path, &size);
    adopt_file(&w, data, size);
    must(mc_prefix_file_parse(&w.model, data, size, "file", &tokens));
    check_accounts(&w);
    assert_int_equal(tokens, 4 * BLOCK);
    for (int i = 0; i < 2; i++) {
        mc_session_model plain = w.model;
        float *got, *want;
        plain.pool = NULL;
        make_text(&w, text, 70);
        assert_int_equal(ask(&w.model, "", text, 70, &got), 2 * BLOCK);
        (void)ask(&plain, "", text, 70, &want);
        fixture_compare(got, want, (size_t)w.f.lm->spec.vocab, w.f.tolerance, "an old file");
        free(got);
        free(want);
    }
    free(data);
    free(path);
    close_world(&w);
}

/* Any word of the header and of the entries of version 1, too: see absurd_files. */
static bool load_with(const world *w, const char *data, size_t size, size_t word, int64_t value);

static const int64_t values[] = {
    -1, 0, 1, 2, INT32_MAX, INT64_MAX, INT64_MIN, (int64_t)1 << 32, -((int64_t)1 << 32)};

static void absurd_old_files(void **state) {
    (void)state;
    world w;
    size_t size;
    int loaded = 0;
    open_world(&w, "gemma3_text_f32", MICA_CACHE_F32, 20);
    char *path = test_format("%s/../../sessions/gemma3_text_f32.prefixes", w.f.path);
    char *data = test_read_file(path, &size);
    adopt_file(&w, data, size);
    for (size_t word = 0; word < HEADER_WORDS + 40; word++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            bool good = load_with(&w, data, size, word, values[i]);
            loaded += good;
            check_accounts(&w);
            if (!good) continue;
            mc_kv_pool_close(&w.model.pool);
            open_pool(&w, 20);
        }
    assert_true(loaded > 0);
    free(data);
    free(path);
    close_world(&w);
}

/* ---- refused ---- */

/* A file of two texts, to be freed, of a pool that is then empty. */
static char *make_file(world *w, size_t *size) {
    int32_t text[MAX_TEXT];
    for (int i = 0; i < 2; i++) {
        make_text(w, text, 70);
        (void)ask(&w->model, "", text, 70, NULL);
    }
    char *path = save(w), *data = test_read_file(path, size);
    mc_kv_pool_close(&w->model.pool);
    open_pool(w, 0);
    free(path);
    return data;
}

static void expect_refused(const world *w, const char *data, size_t size, mica_status status,
                           const char *text) {
    int64_t tokens = 1;
    mica_status got = mc_prefix_file_parse(&w->model, data, size, "file", &tokens);
    if (got != status) fail_msg("%zu bytes: %s", size, mica_status_name(got));
    if (!strstr(mica_last_error(), text)) fail_msg("\"%s\" lacks %s", mica_last_error(), text);
    assert_int_equal(tokens, 0);
    assert_int_equal(w->model.pool->prefixes.count, 0);
    assert_int_equal(w->model.pool->snapshots.known.count, 0);
    check_accounts(w);
}

/* Cut at any length, with a bit of some bytes flipped, or with more at the end. */
static void check_damaged(const char *name) {
    world w;
    size_t size;
    open_world(&w, name, MICA_CACHE_F32, 0);
    char *data = make_file(&w, &size);
    for (size_t cut = 0; cut < size; cut += cut < 300 ? 1 : 997)
        expect_refused(&w, data, cut, MICA_EFORMAT, "file: ");
    for (size_t i = HEADER_WORDS * 8; i < size; i += i < 400 ? 1 : 997) {
        data[i] = (char)(data[i] ^ (1 << i % 8));
        expect_refused(&w, data, size, MICA_EFORMAT, "file: ");
        data[i] = (char)(data[i] ^ (1 << i % 8));
    }
    char *longer = calloc(1, size + 8);
    assert_non_null(longer);
    memcpy(longer, data, size);
    expect_refused(&w, longer, size + 8, MICA_EFORMAT, "bytes are not those of");
    free(longer);
    free(data);
    close_world(&w);
}

static void damaged_files(void **state) {
    (void)state;
    check_damaged("gemma3_text_f32");
    check_damaged("../families/granitehyb_dense_q4");
    check_damaged("../families/gemma4_e_hf");
}

/* Sets a word; the checksum is right. Whether the file is loaded. */
static bool load_with(const world *w, const char *data, size_t size, size_t word, int64_t value) {
    char *copy = malloc(size);
    int64_t tokens;
    assert_non_null(copy);
    memcpy(copy, data, size);
    memcpy(copy + 8 * word, &value, sizeof value);
    uint64_t sum = mc_session_checksum(copy, size - 8);
    memcpy(copy + size - 8, &sum, sizeof sum);
    mica_status status = mc_prefix_file_parse(&w->model, copy, size, "file", &tokens);
    if (status != MICA_OK) assert_non_null(strstr(mica_last_error(), "file: "));
    free(copy);
    return status == MICA_OK;
}

/* Any word of the header and of the entries with any value, and a right checksum: the file is
 * refused, or what it says is loaded; nothing else happens. */
static void absurd_files(void **state) {
    (void)state;
    static const char *const fixtures[] = {"gemma3_text_f32", "qwen3_tied", "../families/lfm2_hf",
                                           "../families/gemma4_e_hf"};
    for (size_t k = 0; k < sizeof fixtures / sizeof *fixtures; k++) {
        world w;
        size_t size;
        int32_t text[MAX_TEXT];
        int loaded = 0;
        open_world(&w, fixtures[k], MICA_CACHE_F32, 0);
        char *data = make_file(&w, &size);
        for (size_t word = 0; word < HEADER_WORDS + 40; word++)
            for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
                bool changed = memcmp(data + 8 * word, &values[i], 8) != 0;
                bool good = load_with(&w, data, size, word, values[i]);
                assert_false(good && changed && word < HEADER_WORDS);
                loaded += good;
                check_accounts(&w);
                if (!good) continue;
                w.random = 7; /* the same texts */
                make_text(&w, text, 70);
                (void)ask(&w.model, "", text, 70, NULL);
                check_accounts(&w);
                mc_kv_pool_close(&w.model.pool);
                open_pool(&w, 0);
            }
        assert_true(loaded > 0); /* other hashes are as good */
        free(data);
        close_world(&w);
    }
}

static void other_models(void **state) {
    (void)state;
    world w;
    size_t size;
    open_world(&w, "qwen3_tied", MICA_CACHE_F32, 20);
    char *data = make_file(&w, &size);
    mc_lm *lm = w.f.lm;
    lm->spec.norm_eps *= 2.0;
    expect_refused(&w, data, size, MICA_EINVAL, "another model");
    lm->spec.norm_eps /= 2.0;
    mc_lm_set_arithmetic(lm, MICA_ARITHMETIC_FAST);
    expect_refused(&w, data, size, MICA_EINVAL, "other arithmetic");
    mc_lm_set_arithmetic(lm, MICA_ARITHMETIC_EXACT);
    mc_kv_pool_close(&w.model.pool);
    mc_lm_set_cache(lm, MICA_CACHE_BF16);
    open_pool(&w, 20);
    expect_refused(&w, data, size, MICA_EINVAL, "type of caches");
    data[0] = 'm';
    expect_refused(&w, data, size, MICA_EFORMAT, "not a file of prefixes");
    w.model.pool->keeps = false;
    int64_t tokens;
    assert_int_equal(mc_prefix_file_parse(&w.model, data, size, "file", &tokens),
                     MICA_EUNSUPPORTED);
    assert_int_equal(mc_prefix_file_save(&w.model, "/nowhere/file"), MICA_EUNSUPPORTED);
    w.model.pool->keeps = true;
    assert_int_equal(mc_prefix_file_save(&w.model, "/nowhere/file"), MICA_ENOENT);
    assert_int_equal(mc_prefix_file_load(&w.model, "/nowhere/file", &tokens), MICA_ENOENT);
    free(data);
    close_world(&w);
}

/* ---- memory ---- */

typedef struct loading {
    world *w;
    const char *data;
    size_t size;
} loading;

static bool load_it(void *arg) {
    const loading *l = arg;
    int64_t tokens;
    test_forget_plans(l->w->f.device);
    mica_status status = mc_prefix_file_parse(&l->w->model, l->data, l->size, "file", &tokens);
    if (status == MICA_OK) return true;
    assert_int_equal(status, MICA_ENOMEM);
    check_accounts(l->w);
    assert_int_equal(l->w->model.pool->prefixes.count, 0);
    assert_int_equal(l->w->model.pool->snapshots.known.count, 0);
    return false;
}

static void check_memory(const char *name) {
    world w;
    loading l = {.w = &w};
    open_world(&w, name, MICA_CACHE_F32, 0);
    char *data = make_file(&w, &l.size);
    l.data = data;
    uint64_t rounds = test_fail_each_allocation(load_it, &l);
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)rounds);
    free(data);
    close_world(&w);
}

static void without_memory(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* its thread allocates, too */
    check_memory("qwen3_tied");
    check_memory("../families/lfm2_hf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_pool_knows_the_texts),
        cmocka_unit_test(small_pools_take_the_latest),
        cmocka_unit_test(many_blocks),
        cmocka_unit_test(every_family),
        cmocka_unit_test(fewer_snapshots),
        cmocka_unit_test(an_old_file),
        cmocka_unit_test(absurd_old_files),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(absurd_files),
        cmocka_unit_test(other_models),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("session/prefix_file", tests, make_folder, remove_folder);
}

/* Input: a file of prefixes. If the input's length is even, what stands before the counts, and its
 * checksum, are corrected here, so that the code behind these checks is reached. The model is tiny:
 * for version 2 four layers, one with a window, one with more heads and one that carries an array;
 * for version 1 one layer alone. A file that loads can be saved, and another pool then loads as
 * much of it; a text goes on from what it has. */
#include "session/prefix_file.h"
#include "session/session_file.h"

#include "scratch.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, TEXT = 2 * BLOCK + 1, SHAPE_AT = 32, COUNTS_AT = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

static mc_state_ops carries; /* never computed with */
static const mc_carried array = {MICA_F32, 1, {3}};
static const mc_layer_state states[] = {
    {.of = 0},
    {.of = 1},
    {.of = 2},
    {.kind = &carries, .of = 3, .carried = &array, .n_carried = 1}};

static mc_attended append(mc_state_rows rows, mica_scope *s, int slot, mica_array k, mica_array v) {
    (void)rows, (void)s, (void)slot;
    return (mc_attended){.k = k, .v = v};
}

static mc_session_model open_model(mc_lm *lm, mica_device *device, int layers) {
    static const char no_tensors[] = "\2\0\0\0\0\0\0\0{}";
    mc_session_model model = {.lm = lm, .device = device, .states = layers > 1 ? states : NULL};
    *lm = (mc_lm){.kv_dtype = MICA_F32};
    lm->spec = (mc_decoder_spec){.family = "fuzz", .vocab = 6, .context = 256, .n_layers = layers};
    for (int i = 0; i < layers; i++) {
        mc_spec_append(&lm->spec, i, mc_spec_add(&lm->spec, &mc_block_attention));
        mc_attention_spec *a = &lm->spec.blocks[i].attention;
        *a = (mc_attention_spec){.heads = 1, .kv_heads = i == 2 ? 2 : 1, .head_dim = 2};
        a->window = i == 1 ? 8 : 0;
    }
    must(mc_weights_parse(no_tensors, sizeof no_tensors - 1, "none", &lm->weights) == MICA_OK);
    must(mica_scope_open(device, &lm->scope) == MICA_OK);
    return model;
}

static void open_pool(mc_session_model *model) {
    const mc_kv_pool_options options = {
        .bytes = 1 << 16, .block = BLOCK, .states = model->states, .sessions = 1, .keep = true};
    must(mc_kv_pool_open(model->lm, model->device, &options, &model->pool) == MICA_OK);
    must(model->pool->keeps);
}

/* The two models, with the beginnings of their files. */
typedef struct world {
    mc_lm lm[2];
    mc_session_model model[2];
    char head[2][COUNTS_AT];
} world;

static void make_head(world *w, int i) {
    const char *path = fuzz_scratch("prefixes");
    FILE *file = NULL;
    open_pool(&w->model[i]);
    must(mc_prefix_file_save(&w->model[i], path) == MICA_OK && (file = fopen(path, "rb")));
    must(fread(w->head[i], 1, COUNTS_AT, file) == COUNTS_AT);
    fclose(file);
    if (i == 0) { /* of version 1: slots, kv width and dtype are others */
        const uint32_t version = 1;
        const mc_kv_part *part = w->model[i].pool->parts;
        const int64_t shape[] = {0, BLOCK, 1, part->slots, part->shape.width, MICA_F32};
        memcpy(w->head[i] + 8, &version, sizeof version);
        memcpy(w->head[i] + SHAPE_AT, shape, sizeof shape);
    }
    mc_kv_pool_close(&w->model[i].pool);
}

static world *open_world(void) {
    static world w;
    mica_device *device;
    must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) == MICA_OK);
    carries = mc_state_carried;
    carries.name = "fuzz";
    carries.append = append;
    for (int i = 0; i < 2; i++) {
        w.model[i] = open_model(&w.lm[i], device, i ? 4 : 1);
        make_head(&w, i);
    }
    return &w;
}

/* How much a pool has. */
static int64_t count(const mc_session_model *model) {
    return model->pool->prefixes.count + (int64_t)model->pool->snapshots.known.count * 1000000;
}

static void check_loaded(mc_session_model *model, int64_t tokens) {
    const char *path = fuzz_scratch("prefixes");
    const int32_t ids[TEXT] = {0};
    int64_t had = count(model), again;
    mc_session *session;
    must(mc_prefix_file_save(model, path) == MICA_OK);
    must(mc_session_open(model, 0, &session) == MICA_OK);
    int64_t known = mc_session_reuse(session, ids, TEXT);
    must(known % BLOCK == 0 && known < TEXT && (tokens > 0 || known == 0));
    mc_session_close(&session);
    mc_kv_pool_close(&model->pool);
    open_pool(model);
    must(mc_prefix_file_load(model, path, &again) == MICA_OK);
    must(again == tokens && count(model) == had);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static world *w;
    int64_t tokens;
    if (!mc_prefix_available()) return 0;
    if (!w) w = open_world();
    char *file = malloc(size ? size : 1);
    must(file != NULL);
    if (size) memcpy(file, data, size);
    int which = size > 8 && file[8] == 1 ? 0 : 1;
    if (size >= COUNTS_AT + 24 && size % 8 == 0) {
        memcpy(file, w->head[which], COUNTS_AT);
        uint64_t sum = mc_session_checksum(file, size - 8);
        memcpy(file + size - 8, &sum, sizeof sum);
    }
    mc_session_model *model = &w->model[which];
    open_pool(model);
    if (mc_prefix_file_parse(model, file, size, "input", &tokens) == MICA_OK)
        check_loaded(model, tokens);
    else
        must(*mica_last_error() != '\0' && count(model) == 0 && tokens == 0);
    must(mc_kv_pool_available(model->pool) == model->pool->blocks);
    mc_kv_pool_close(&model->pool);
    free(file);
    return 0;
}

/* Input: a session file. If the input's length is even, its magic, version, fingerprint and
 * checksum are corrected here, so that the code behind these checks is reached. The model is tiny:
 * six tokens, two layers, one with a window of 4, and a context of 8 if the input says so. A
 * session that loads can be saved, is then loaded as the same session, and can be cut back. */
#include "session/session_file.h"

#include "scratch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

static mc_session_model open_model(void) {
    static const char no_tensors[] = "\2\0\0\0\0\0\0\0{}";
    static mc_lm lm = {.kv_dtype = MICA_F32};
    mc_session_model model = {.lm = &lm};
    lm.spec = (mc_decoder_spec){
        .family = "fuzz", .kv_heads = 1, .head_dim = 2, .vocab = 6, .context = 64, .n_layers = 2};
    for (int i = 0; i < lm.spec.n_layers; i++)
        mc_spec_append(&lm.spec, i, mc_spec_add(&lm.spec, &mc_block_attention));
    lm.spec.blocks[1].attention.window = 4;
    must(mc_weights_parse(no_tensors, sizeof no_tensors - 1, "none", &lm.weights) == MICA_OK);
    must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &model.device) == MICA_OK);
    must(mica_scope_open(model.device, &lm.scope) == MICA_OK);
    return model;
}

/* Corrects the fields that any mutation breaks. */
static void mend(const mc_session_model *model, char *file, size_t size) {
    static const uint32_t version[] = {3, 0x01020304};
    uint64_t fingerprint, sum;
    if (size < 32 || size % 8 != 0) return;
    must(mc_session_fingerprint(model, &fingerprint) == MICA_OK);
    memcpy(file, "MICASESS", 8);
    memcpy(file + 8, version, sizeof version);
    memcpy(file + 16, &fingerprint, sizeof fingerprint);
    sum = mc_session_checksum(file, size - 8);
    memcpy(file + size - 8, &sum, sizeof sum);
}

static void save_and_load(const mc_session_model *model, mc_session *session) {
    const char *path = fuzz_scratch("session");
    mc_session *again;
    must(mc_session_save(session, path) == MICA_OK);
    must(mc_session_load(model, path, 0, &again) == MICA_OK);
    must(mc_session_count(again) == mc_session_count(session));
    const mc_buffer *a = &session->history.ids, *b = &again->history.ids;
    must(a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0));
    mc_session_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static mc_session_model model;
    mc_session *session;
    char *file = malloc(size ? size : 1);
    if (!model.device) model = open_model();
    must(file != NULL);
    if (size) memcpy(file, data, size);
    model.context = size > 24 && file[24] == 8 ? 8 : 0;
    mend(&model, file, size);
    mica_status status = mc_session_parse(&model, file, size, "input", 0, &session);
    must((status == MICA_OK) == (session != NULL));
    if (status == MICA_OK) {
        save_and_load(&model, session);
        const mc_tokens *history = &session->history;
        int64_t count = mc_session_count(session), some = count < 64 ? count : 64;
        int32_t ids[65] = {0};
        must(model.context || count <= 64);
        if (history->start == 0 && some) memcpy(ids, history->ids.data, (size_t)some * sizeof *ids);
        int64_t reused = mc_session_reuse(session, ids, some / 2 + 1);
        must(reused >= 0 && reused <= some / 2);
    } else {
        must(*mica_last_error() != '\0');
    }
    mc_session_close(&session);
    free(file);
    return 0;
}

#include "model/own_heads.h"

#include <math.h>

enum { OTHER_DIM = 32, WINDOW = 40 };

/* A layer's attention: even layers slide, and have two heads of keys; odd ones attend to all
 * positions, and have one, of another width. The last of each shares what the one before has. */
static int add_attention(mc_decoder_spec *spec, bool slides, bool share) {
    int block = mc_spec_copy(spec, MC_PLAIN_ATTENTION);
    mc_block_spec *b = &spec->blocks[block];
    if (slides) b->attention.window = WINDOW;
    if (!slides) {
        b->attention.kv_heads = 1;
        b->attention.head_dim = OTHER_DIM;
        b->attention.scale = 1.0 / sqrt(OTHER_DIM);
    }
    if (share) b->names[MC_ATTENTION_K] = b->names[MC_ATTENTION_V] = NULL;
    return block;
}

static mica_status read_spec(const mc_config_scope *root, mc_decoder_spec *spec) {
    bool share = false;
    spec->norm_eps = 1e-6;
    spec->context = 512;
    MC_TRY(mc_family_plain(root, spec));
    MC_TRY(mc_config_bool(root, "share", MC_OPTIONAL, &share));
    int own[2] = {add_attention(spec, true, false), add_attention(spec, false, false)};
    int shared[2] = {add_attention(spec, true, share), add_attention(spec, false, share)};
    int last = spec->n_layers - 2;
    for (int i = 0; i < spec->n_layers; i++) {
        spec->layers[i].blocks[0] = (uint8_t)(i < last ? own : shared)[i % 2];
        if (share && i >= last) mc_spec_share(spec, i, i - 2);
    }
    return MICA_OK;
}

const mc_family own_heads = {
    .name = "own_heads",
    .model_types = (const char *const[]){"own_heads", NULL},
    .architectures = (const char *const[]){NULL},
    .tensors = (const char *const[]){"own_heads.weight", NULL},
    .chat = "chatml",
    .read = read_spec,
};

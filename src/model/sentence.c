#include "model/sentence.h"

#include "base/alloc.h"
#include "base/buffer.h"

#include <mica/nn.h>

mica_status mc_sentence_check(const mc_sentence *sentence) {
    return sentence->status == MICA_OK ? MICA_OK : mc_fail(sentence->status, "%s", sentence->error);
}

static mica_array activate(mica_scope *s, mc_sentence_activation activation, mica_array x) {
    switch (activation) {
    case MC_SENTENCE_TANH:
        return mica_tanh(s, x);
    case MC_SENTENCE_GELU:
        return mica_gelu(s, x);
    case MC_SENTENCE_SILU:
        return mica_silu(s, x);
    case MC_SENTENCE_RELU:
        return mica_maximum(s, x, mica_f32(s, 0.0f));
    case MC_SENTENCE_IDENTITY:
        break;
    }
    return x;
}

/* x [B, n], each row over its length; zeros stay zeros. */
static mica_array normalise(mica_scope *s, mica_array x) {
    const int axis = -1;
    mica_array square = mica_sum(s, mica_square(s, x), &axis, 1, true);
    return mica_multiply(s, x, mica_rsqrt(s, mica_maximum(s, square, mica_f32(s, 1e-24f))));
}

mica_array mc_sentence_project(mica_scope *s, const mc_sentence *sentence, mica_array x) {
    for (size_t i = 0; i < sentence->n_dense; i++) {
        const mc_sentence_dense *dense = &sentence->dense[i];
        if (dense->normalise) x = normalise(s, x);
        x = activate(s, dense->activation, mc_linear_apply(s, &dense->linear, x));
    }
    return x;
}

mica_array mc_ranker_apply(mica_scope *s, const mc_ranker *ranker, mica_array x) {
    x = activate(s, ranker->activation, mc_linear_apply(s, &ranker->dense, x));
    if (mica_valid(ranker->norm))
        x = mica_layer_norm(s, x, ranker->norm, ranker->norm_bias, (float)ranker->norm_eps);
    return mc_linear_apply(s, &ranker->out, x);
}

const mc_ranker_names *mc_ranker_names_at(size_t i) {
    static const mc_ranker_names names[] = {
        {.dense = "classifier.dense", .out = "classifier.out_proj", .outs = true},
        {.dense = "head.dense", .norm = "head.norm", .out = "classifier"},
        {.dense = "pooler.dense", .out = "classifier", .inner = true},
    };
    return i < sizeof names / sizeof *names ? &names[i] : NULL;
}

static mica_status no_prompt(const mc_config_scope *prompts, mc_str name) {
    mc_buffer list = {0};
    bool ok = true;
    for (mc_json_iter it = mc_json_begin(prompts->object); mc_json_next(&it);)
        ok = ok && mc_buffer_printf(&list, "%s%.*s", list.len ? ", " : "", MC_STR_ARG(it.key));
    const char *text = ok ? mc_buffer_cstr(&list) : NULL;
    mica_status status = text
                             ? mc_fail(MICA_EINVAL, "no prompt is called '%.*s'; the model has: %s",
                                       MC_STR_ARG(name), *text ? text : "none")
                             : mc_fail_nomem("prompts");
    mc_buffer_deinit(&list);
    return status;
}

mica_status mc_sentence_prompt(const mc_sentence *sentence, mc_str name, mc_str *prompt) {
    mc_config_scope root = mc_config_root(sentence->settings), prompts;
    mc_str wanted = name;
    *prompt = MC_STR("");
    if (name.ptr && !name.len) return MICA_OK;
    MC_TRY(mc_config_object(&root, "prompts", MC_OPTIONAL, &prompts));
    if (!name.ptr) MC_TRY(mc_config_str(&root, "default_prompt_name", MC_OPTIONAL, &wanted));
    if (!wanted.len) return MICA_OK;
    for (mc_json_iter it = mc_json_begin(prompts.object); mc_json_next(&it);)
        if (mc_str_eq(it.key, wanted) && mc_json_get_str(it.value, prompt)) return MICA_OK;
    if (name.ptr) return no_prompt(&prompts, name);
    return mc_config_fail(&root, "default_prompt_name", MICA_EINVAL,
                          "no prompt is called '%.*s'; give the name of one, or \"\"",
                          MC_STR_ARG(wanted));
}

int64_t mc_sentence_width(const mc_sentence *sentence, int64_t hidden) {
    return sentence && sentence->n_dense ? sentence->dense[sentence->n_dense - 1].linear.out
                                         : hidden;
}

void mc_sentence_close(mc_sentence **sentence) {
    if (!*sentence) return;
    for (size_t i = 0; i < (*sentence)->n_dense; i++)
        mc_weights_close(&(*sentence)->dense[i].weights);
    mc_config_close(&(*sentence)->settings);
    mc_free((*sentence)->error);
    mc_free(*sentence);
    *sentence = NULL;
}

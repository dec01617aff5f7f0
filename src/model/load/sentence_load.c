/* Loading what stands behind an encoder: modules.json and the folders that it names; the head of a
 * cross-encoder. */
#include "model/load/load.h"

#include "base/alloc.h"
#include "base/filemap.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 320

/* ---- the modules of sentence-transformers ---- */

/* Reads a file of a module's folder. */
static mica_status load_config(const char *folder, const char *path, const char *name,
                               mc_config_need need, mc_config **config) {
    char *inside = mc_path_join(folder, path);
    if (!inside) return mc_fail_nomem("path");
    mica_status status = mc_config_load(*path ? inside : folder, name, need, config);
    mc_free(inside);
    return status;
}

/* The modes of pooling: as files name one now, and as they set a flag for each. */
static const struct {
    const char *name, *flag;
    mc_sentence_pooling pooling;
} poolings[] = {
    {"cls", "pooling_mode_cls_token", MC_SENTENCE_CLS},
    {"max", "pooling_mode_max_tokens", MC_SENTENCE_MAX},
    {"mean", "pooling_mode_mean_tokens", MC_SENTENCE_MEAN},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", MC_SENTENCE_MEAN_SQRT},
    {"weightedmean", "pooling_mode_weightedmean_tokens", MC_SENTENCE_WEIGHTED},
    {"lasttoken", "pooling_mode_lasttoken", MC_SENTENCE_LAST}};

#define POOLINGS (sizeof poolings / sizeof *poolings)

static mica_status several_poolings(const mc_config_scope *root, const char *key, size_t count) {
    return mc_config_fail(root, key, MICA_EUNSUPPORTED,
                          "%zu modes of pooling are set; mica knows one at a time", count);
}

/* A name, or a list of one. */
static mica_status read_pooling_name(const mc_config_scope *root, mc_sentence_pooling *pooling) {
    static const char *const key = "pooling_mode";
    mc_str names[POOLINGS];
    size_t count = 1;
    if (mc_json_get_type(mc_json_find(root->object, key)) == MC_JSON_ARRAY)
        MC_TRY(mc_config_strs(root, key, MC_REQUIRED, names, POOLINGS, &count));
    else
        MC_TRY(mc_config_str(root, key, MC_REQUIRED, names));
    if (count != 1) return several_poolings(root, key, count);
    for (size_t i = 0; i < POOLINGS; i++) {
        *pooling = poolings[i].pooling;
        if (mc_str_is(names[0], poolings[i].name)) return MICA_OK;
    }
    return mc_config_fail(root, key, MICA_EUNSUPPORTED,
                          "\"%.*s\"; mica knows cls, max, mean, mean_sqrt_len_tokens, "
                          "weightedmean and lasttoken",
                          MC_STR_ARG(names[0]));
}

static mica_status read_pooling_flags(const mc_config_scope *root, mc_sentence_pooling *pooling) {
    size_t count = 0;
    *pooling = MC_SENTENCE_MEAN;
    for (size_t i = 0; i < POOLINGS; i++) {
        bool is = false;
        MC_TRY(mc_config_bool(root, poolings[i].flag, MC_OPTIONAL, &is));
        if (is) *pooling = poolings[i].pooling;
        count += is;
    }
    return count <= 1 ? MICA_OK : several_poolings(root, "pooling_mode_mean_tokens", count);
}

static mica_status read_pooling(const mc_config_scope *root, mc_sentence *sentence) {
    bool include = true;
    MC_TRY(mc_config_has(root, "pooling_mode") ? read_pooling_name(root, &sentence->pooling)
                                               : read_pooling_flags(root, &sentence->pooling));
    MC_TRY(mc_config_bool(root, "include_prompt", MC_OPTIONAL, &include));
    sentence->skip_prompt = !include;
    return MICA_OK;
}

static mica_status load_pooling(mc_lm *lm, const char *folder, const char *path) {
    mc_config *config = NULL;
    MC_TRY(load_config(folder, path, "config.json", MC_REQUIRED, &config));
    mc_config_scope root = mc_config_root(config);
    mica_status status = read_pooling(&root, lm->sentence);
    mc_config_close(&config);
    return status;
}

/* What is behind a name's last dot: the class of "torch.nn.modules.activation.Tanh". */
static mc_str last_part(mc_str name) {
    size_t at = name.len;
    while (at && name.ptr[at - 1] != '.')
        at--;
    return (mc_str){name.ptr + at, name.len - at};
}

/* A class of PyTorch, or a name of transformers. *out: the default. */
static mica_status read_activation(const mc_config_scope *root, const char *key,
                                   mc_sentence_activation *out) {
    static const struct {
        const char *name;
        mc_sentence_activation activation;
    } names[] = {{"Identity", MC_SENTENCE_IDENTITY}, {"Tanh", MC_SENTENCE_TANH},
                 {"GELU", MC_SENTENCE_GELU},         {"SiLU", MC_SENTENCE_SILU},
                 {"ReLU", MC_SENTENCE_RELU},         {"tanh", MC_SENTENCE_TANH},
                 {"gelu", MC_SENTENCE_GELU},         {"GELUActivation", MC_SENTENCE_GELU},
                 {"silu", MC_SENTENCE_SILU},         {"swish", MC_SENTENCE_SILU},
                 {"relu", MC_SENTENCE_RELU}};
    mc_str name = MC_STR("");
    MC_TRY(mc_config_str(root, key, MC_OPTIONAL, &name));
    if (!name.len) return MICA_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!mc_str_is(last_part(name), names[i].name)) continue;
        *out = names[i].activation;
        return MICA_OK;
    }
    return mc_config_fail(root, key, MICA_EUNSUPPORTED,
                          "\"%.*s\"; mica knows Identity, Tanh, GELU, SiLU and ReLU",
                          MC_STR_ARG(name));
}

static mica_status load_matrix(mc_lm *lm, const mc_config_scope *root, mc_sentence_dense *dense) {
    mc_loader loader = {.weights = dense->weights, .scope = lm->scope, .prefix = ""};
    bool bias = true;
    const int64_t max = MC_MAX_WIDTH;
    MC_TRY(mc_config_int(root, "in_features", MC_REQUIRED, 1, max, &dense->linear.in));
    MC_TRY(mc_config_int(root, "out_features", MC_REQUIRED, 1, max, &dense->linear.out));
    MC_TRY(mc_config_bool(root, "bias", MC_OPTIONAL, &bias));
    dense->activation = MC_SENTENCE_TANH;
    MC_TRY(read_activation(root, "activation_function", &dense->activation));
    loader.used = mc_calloc(mc_weights_count(dense->weights) + 1, sizeof *loader.used);
    if (!loader.used) return mc_fail_nomem("a dense module");
    mica_status status = mc_linear_load(&loader, "linear", bias, &dense->linear);
    if (status == MICA_OK && loader.missing.count)
        status = mc_config_fail(root, "out_features", MICA_ENOENT,
                                "linear.weight, or its bias, is in no file of the folder");
    mc_names_deinit(&loader.missing);
    mc_free(loader.used);
    return status;
}

static mica_status load_dense(mc_lm *lm, const char *folder, const char *path) {
    mc_sentence *sentence = lm->sentence;
    const mc_weights_options defaults = {0};
    mc_config *config = NULL;
    int64_t in = mc_sentence_width(sentence, lm->spec.hidden);
    if (sentence->n_dense == MC_SENTENCE_DENSE)
        return mc_fail(MICA_EUNSUPPORTED, "modules.json: more than %d dense modules",
                       MC_SENTENCE_DENSE);
    char *inside = mc_path_join(folder, path);
    if (!inside) return mc_fail_nomem("path");
    mc_sentence_dense *dense = &sentence->dense[sentence->n_dense];
    mica_status status = mc_weights_open(inside, &defaults, &dense->weights);
    mc_free(inside);
    if (status != MICA_OK) return status;
    sentence->n_dense++;
    dense->normalise = sentence->normalise;
    sentence->normalise = false;
    MC_TRY(load_config(folder, path, "config.json", MC_REQUIRED, &config));
    mc_config_scope root = mc_config_root(config);
    status = load_matrix(lm, &root, dense);
    if (status == MICA_OK && dense->linear.in != in)
        status = mc_config_fail(&root, "in_features", MICA_ESHAPE,
                                "want %lld, the numbers of the module before", (long long)in);
    mc_config_close(&config);
    return status;
}

static mica_status load_transformer(mc_lm *lm, const char *folder, const char *path) {
    mc_config *config = NULL;
    if (*path)
        return mc_fail(MICA_EUNSUPPORTED,
                       "modules.json: the transformer is in %s: open that folder", path);
    MC_TRY(mc_config_load(folder, "sentence_bert_config.json", MC_OPTIONAL, &config));
    mc_config_scope root = mc_config_root(config);
    mica_status status = mc_config_int(&root, "max_seq_length", MC_OPTIONAL, 1, INT32_MAX,
                                       &lm->sentence->max_tokens);
    mc_config_close(&config);
    return status;
}

static mica_status load_normalize(mc_lm *lm, const char *folder, const char *path) {
    (void)folder;
    (void)path;
    lm->sentence->normalise = true;
    return MICA_OK;
}

/* A language model that ranks: it has answers, and no vectors. */
static mica_status load_logit_score(mc_lm *lm, const char *folder, const char *path) {
    mc_config *config = NULL;
    MC_TRY(load_config(folder, path, "config.json", MC_REQUIRED, &config));
    mc_config_scope root = mc_config_root(config);
    const int64_t last = lm->spec.vocab - 1;
    mc_sentence *sentence = lm->sentence;
    mica_status status =
        mc_config_int(&root, "true_token_id", MC_REQUIRED, 0, last, &sentence->yes);
    if (status == MICA_OK)
        status = mc_config_int(&root, "false_token_id", MC_REQUIRED, 0, last, &sentence->no);
    mc_config_close(&config);
    if (status != MICA_OK) return status;
    sentence->answers = true;
    return mc_fail(MICA_EUNSUPPORTED, "modules.json: the model ranks documents and has no vectors");
}

static mica_status load_module(mc_lm *lm, const char *folder, mc_str type, mc_str path) {
    static const struct {
        const char *type;
        mica_status (*load)(mc_lm *lm, const char *folder, const char *path);
    } kinds[] = {{".Transformer", load_transformer},
                 {".Pooling", load_pooling},
                 {".Dense", load_dense},
                 {".Normalize", load_normalize},
                 {".LogitScore", load_logit_score}};
    char inside[NAME_BYTES];
    if (path.len >= sizeof inside || (path.len > 0 && !mc_is_entry_name(path)))
        return mc_fail(MICA_EFORMAT, "modules.json: '%.*s' is no folder beside it",
                       MC_STR_ARG(path));
    snprintf(inside, sizeof inside, "%.*s", MC_STR_ARG(path));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_ends(type, mc_str_of(kinds[i].type))) return kinds[i].load(lm, folder, inside);
    return mc_fail(MICA_EUNSUPPORTED, "modules.json: the module '%.*s' is not supported",
                   MC_STR_ARG(type));
}

static mica_status load_modules(mc_lm *lm, const char *folder, mc_json list) {
    if (mc_json_get_type(list) != MC_JSON_ARRAY)
        return mc_fail(MICA_EFORMAT, "%s/modules.json: not an array", folder);
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        mc_str type, path = MC_STR("");
        mc_json_get_str(mc_json_find(it.value, "path"), &path);
        if (!mc_json_get_str(mc_json_find(it.value, "type"), &type))
            return mc_fail(MICA_EFORMAT, "%s/modules.json: a module without a type", folder);
        MC_TRY(load_module(lm, folder, type, path));
    }
    return MICA_OK;
}

static mica_status load_files(mc_lm *lm, const char *folder, const char *path) {
    mc_json_doc *doc = NULL;
    MC_TRY(mc_config_load(folder, "config_sentence_transformers.json", MC_OPTIONAL,
                          &lm->sentence->settings));
    MC_TRY(mc_json_load(path, MC_FILE_CONFIG, &doc));
    mica_status status = load_modules(lm, folder, mc_json_root(doc));
    mc_json_close(&doc);
    return status;
}

/* Files that cannot be followed are an error of vectors: a model has other uses. */
static mica_status keep_error(mc_sentence *sentence, mica_status status) {
    if (status == MICA_OK || status == MICA_ENOMEM) return status;
    sentence->status = status;
    sentence->error = mc_strdup(mica_last_error());
    return sentence->error ? MICA_OK : mc_fail_nomem("an error");
}

mica_status mc_sentence_load(mc_lm *lm, const char *folder) {
    char *path = mc_path_join(folder, "modules.json");
    if (!path) return mc_fail_nomem("path");
    mica_status status = MICA_OK;
    if (mc_path_is_file(path)) {
        lm->sentence = mc_calloc(1, sizeof *lm->sentence);
        status = lm->sentence ? keep_error(lm->sentence, load_files(lm, folder, path))
                              : mc_fail_nomem("the modules of an embedder");
    }
    mc_free(path);
    return status;
}

/* ---- the head of a cross-encoder ---- */

static bool has(const mc_loader *loader, const char *module) {
    char text[NAME_BYTES + 8];
    snprintf(text, sizeof text, "%s.weight", module);
    return mc_weights_find(loader->weights, text);
}

static bool has_bias(const mc_loader *loader, const char *module) {
    char text[NAME_BYTES + 8];
    snprintf(text, sizeof text, "%s.bias", module);
    return mc_weights_find(loader->weights, text);
}

static mica_status load_square(mc_loader *loader, const mc_lm *lm, const char *module,
                               mc_linear *linear) {
    *linear = (mc_linear){.out = lm->spec.hidden, .in = lm->spec.hidden};
    return mc_linear_load(loader, module, has_bias(loader, module), linear);
}

static mica_status load_out(mc_loader *loader, const mc_lm *lm, const char *module,
                            mc_linear *linear) {
    *linear = (mc_linear){.in = lm->spec.hidden};
    return mc_linear_load(loader, module, has_bias(loader, module), linear);
}

/* ModernBERT's: a LayerNorm follows, and the mean of all tokens may be what is read. */
static mica_status load_norm(mc_loader *loader, mc_lm *lm, const mc_config_scope *root,
                             const char *norm) {
    char text[NAME_BYTES + 8];
    mc_ranker *r = lm->ranker;
    mc_str pooling = MC_STR("cls");
    r->activation = MC_SENTENCE_GELU;
    MC_TRY(read_activation(root, "classifier_activation", &r->activation));
    r->norm_eps = lm->spec.norm_eps;
    MC_TRY(mc_config_str(root, "classifier_pooling", MC_OPTIONAL, &pooling));
    r->mean = mc_str_is(pooling, "mean");
    snprintf(text, sizeof text, "%s.weight", norm);
    MC_TRY(mc_vector_load(loader, text, lm->spec.hidden, 0.0, &r->norm));
    if (!has_bias(loader, norm)) return MICA_OK;
    snprintf(text, sizeof text, "%s.bias", norm);
    return mc_vector_load(loader, text, lm->spec.hidden, 0.0, &r->norm_bias);
}

static mica_status read_score(const mc_config_scope *scope, const char *key, mc_ranker *ranker) {
    mc_str name = MC_STR("");
    MC_TRY(mc_config_str(scope, key, MC_OPTIONAL, &name));
    mc_str last = last_part(name);
    ranker->sigmoid = mc_str_is(last, "Sigmoid");
    if (ranker->sigmoid || mc_str_is(last, "Identity")) return MICA_OK;
    return mc_config_fail(scope, key, MICA_EUNSUPPORTED,
                          "\"%.*s\"; mica knows Sigmoid and Identity", MC_STR_ARG(name));
}

/* What makes a label's score of its logit, as the first place says that does; a sigmoid otherwise.
 * The last place is that of old files. */
static mica_status read_scores(const mc_config_scope *settings, const mc_config_scope *root,
                               mc_ranker *ranker) {
    mc_config_scope own;
    MC_TRY(mc_config_object(root, "sentence_transformers", MC_OPTIONAL, &own));
    const struct {
        const mc_config_scope *scope;
        const char *key;
    } places[] = {{settings, "activation_fn"},
                  {&own, "activation_fn"},
                  {root, "sbert_ce_default_activation_function"}};
    ranker->sigmoid = true;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mc_config_has(places[i].scope, places[i].key))
            return read_score(places[i].scope, places[i].key, ranker);
    return MICA_OK;
}

mica_status mc_ranker_scores(const mc_config_scope *root, const char *folder, mc_ranker *ranker) {
    mc_config *settings = NULL;
    MC_TRY(mc_config_load(folder, "config_sentence_transformers.json", MC_OPTIONAL, &settings));
    mc_config_scope saved = mc_config_root(settings);
    mica_status status = read_scores(&saved, root, ranker);
    mc_config_close(&settings);
    return status;
}

/* The whole name of what a head's states meet first. */
static const char *dense_name(const mc_loader *loader, const mc_ranker_names *names,
                              char text[NAME_BYTES]) {
    snprintf(text, NAME_BYTES, "%s%s", names->inner ? loader->prefix : "", names->dense);
    return text;
}

/* NULL: the files have no head. */
static const mc_ranker_names *find_head(const mc_loader *loader) {
    char dense[NAME_BYTES];
    const mc_ranker_names *names;
    for (size_t i = 0; (names = mc_ranker_names_at(i)); i++)
        if (has(loader, names->out) &&
            (names->outs || has(loader, dense_name(loader, names, dense))))
            return names;
    return NULL;
}

mica_status mc_ranker_load(mc_loader *loader, mc_lm *lm, const char *folder) {
    mc_config_scope root = mc_config_root(lm->config);
    char dense[NAME_BYTES];
    const mc_ranker_names *names = lm->spec.both_ways ? find_head(loader) : NULL;
    if (!names) return MICA_OK;
    lm->ranker = mc_calloc(1, sizeof *lm->ranker);
    if (!lm->ranker) return mc_fail_nomem("the head of a model");
    MC_TRY(mc_ranker_scores(&root, folder, lm->ranker));
    lm->ranker->activation = MC_SENTENCE_TANH;
    if (names->norm) MC_TRY(load_norm(loader, lm, &root, names->norm));
    MC_TRY(load_square(loader, lm, dense_name(loader, names, dense), &lm->ranker->dense));
    return load_out(loader, lm, names->out, &lm->ranker->out);
}

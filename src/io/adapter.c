#include "io/adapter.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/map.h"
#include "base/names.h"
#include "io/config.h"
#include "io/name_pattern.h"

#include <math.h>
#include <string.h>

enum { MAX_RANK = 1 << 16, MAX_PATTERNS = 1 << 16 };

#define MAX_SCALE 1e6

struct mc_adapter {
    mc_arena arena;
    char *path; /* in the arena */
    mc_config *config;
    mc_weights *weights;
    mc_buffer pairs;       /* mc_adapter_pair */
    mc_buffer substitutes; /* mc_adapter_substitute */
    bool peft;
    int64_t num_layers; /* mlx-lm: number of last blocks that have adapters; < 1: all */
    mc_str *targets;    /* [target_count] in the arena: names of modules; NULL: not listed */
    size_t target_count;
    int64_t rank;
    double scale;            /* mlx-lm */
    double alpha;            /* PEFT, as are the next three */
    bool full;               /* mlx-lm: substitutes only */
    bool saves;              /* PEFT: modules_to_save, or a bias: tensors with names of their own */
    bool lora_bias;          /* PEFT */
    mc_json token_rows;      /* PEFT: trainable_token_indices */
    bool dora;               /* pairs have magnitudes, too */
    bool rslora;             /* the scale is alpha / sqrt(rank), not alpha / rank */
    mc_buffer ranks, alphas; /* valued: those of some modules */
    size_t bytes;            /* that are left for compiling their patterns */
    uint32_t steps;          /* that are left for matching them */
};

/* What modules of a pattern have. */
typedef struct valued {
    mc_name_pattern *pattern;
    double value;
} valued;

/* ---- configs ---- */

/* Reads the names listed under the key; *targets is NULL if there is no list. */
static mica_status read_targets(mc_adapter *adapter, const mc_config_scope *scope,
                                const char *key) {
    mc_json list = mc_json_find(scope->object, key);
    if (!mc_json_exists(list)) return MICA_OK;
    size_t count = mc_json_count(list);
    adapter->targets = mc_arena_alloc(&adapter->arena, (count + 1) * sizeof *adapter->targets);
    if (!adapter->targets) return mc_fail_nomem("the modules of an adapter");
    return mc_config_strs(scope, key, MC_REQUIRED, adapter->targets, count, &adapter->target_count);
}

static mica_status read_mlx(mc_adapter *adapter, const mc_config_scope *root) {
    mc_config_scope lora;
    mc_str type = MC_STR("lora");
    MC_TRY(mc_config_str(root, "fine_tune_type", MC_OPTIONAL, &type));
    adapter->dora = mc_str_is(type, "dora");
    adapter->full = mc_str_is(type, "full");
    if (adapter->full) return MICA_OK;
    if (!adapter->dora && !mc_str_is(type, "lora"))
        return mc_config_fail(root, "fine_tune_type", MICA_EUNSUPPORTED,
                              "\"%.*s\"; mica applies \"lora\", \"dora\" and \"full\"",
                              MC_STR_ARG(type));
    MC_TRY(mc_config_int(root, "num_layers", MC_REQUIRED, -1, INT32_MAX, &adapter->num_layers));
    MC_TRY(mc_config_object(root, "lora_parameters", MC_REQUIRED, &lora));
    MC_TRY(mc_config_int(&lora, "rank", MC_REQUIRED, 1, MAX_RANK, &adapter->rank));
    MC_TRY(mc_config_float(&lora, "scale", MC_REQUIRED, -MAX_SCALE, MAX_SCALE, &adapter->scale));
    return read_targets(adapter, &lora, "keys");
}

/* Neither absent, null or false, nor empty. */
static bool is_set(const mc_config_scope *scope, const char *key) {
    bool on = true;
    mc_json v = mc_json_find(scope->object, key);
    mc_json_type type = mc_json_get_type(v);
    if (!mc_json_exists(v) || (mc_json_get_bool(v, &on) && !on)) return false;
    bool holds = type == MC_JSON_ARRAY || type == MC_JSON_OBJECT;
    return !holds || mc_json_count(v) > 0;
}

/* Refuses kinds of adapters that compute differently. */
static mica_status refuse_peft_kinds(const mc_config_scope *root) {
    static const char *const refused[] = {
        "fan_in_fan_out", "layer_replication",       "use_qalora",
        "use_bdlora",     "alora_invocation_tokens",
    };
    mc_str type = MC_STR("");
    MC_TRY(mc_config_str(root, "peft_type", MC_REQUIRED, &type));
    if (!mc_str_is(type, "LORA"))
        return mc_config_fail(root, "peft_type", MICA_EUNSUPPORTED,
                              "\"%.*s\"; mica applies \"LORA\"", MC_STR_ARG(type));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_set(root, refused[i]))
            return mc_config_fail(
                root, refused[i], MICA_EUNSUPPORTED,
                "is set; mica applies plain LoRA and DoRA only: merge the adapter "
                "into its model");
    return MICA_OK;
}

/* Reads what an adapter has beside factors. */
static mica_status read_extras(mc_adapter *adapter, const mc_config_scope *root) {
    mc_str bias = MC_STR("none");
    MC_TRY(mc_config_str(root, "bias", MC_OPTIONAL, &bias));
    if (!mc_str_is(bias, "none") && !mc_str_is(bias, "all") && !mc_str_is(bias, "lora_only"))
        return mc_config_fail(root, "bias", MICA_EUNSUPPORTED,
                              "\"%.*s\"; PEFT has \"none\", \"all\" and \"lora_only\"",
                              MC_STR_ARG(bias));
    MC_TRY(mc_config_bool(root, "lora_bias", MC_OPTIONAL, &adapter->lora_bias));
    adapter->saves = is_set(root, "modules_to_save") || !mc_str_is(bias, "none");
    if (is_set(root, "trainable_token_indices"))
        adapter->token_rows = mc_json_find(root->object, "trainable_token_indices");
    return MICA_OK;
}

static mica_status add_valued(mc_adapter *adapter, mc_str pattern, double value, mc_buffer *list) {
    valued v = {.value = value};
    if (MC_BUFFER_COUNT(list, valued) == MAX_PATTERNS)
        return mc_fail(MICA_EUNSUPPORTED, "there are more than %d patterns", MAX_PATTERNS);
    MC_TRY(mc_name_pattern_compile(pattern, &adapter->bytes, &v.pattern));
    if (MC_BUFFER_PUSH(list, valued, v)) return MICA_OK;
    mc_name_pattern_free(v.pattern);
    return mc_fail_nomem("the patterns of an adapter");
}

/* Reads an object of patterns and numbers. */
static mica_status read_patterns(mc_adapter *adapter, const mc_config_scope *root, const char *key,
                                 double min, double max, bool whole, mc_buffer *list) {
    mc_config_scope patterns;
    MC_TRY(mc_config_object(root, key, MC_OPTIONAL, &patterns));
    for (mc_json_iter it = mc_json_begin(patterns.object); mc_json_next(&it);) {
        double value;
        bool fits = mc_json_get_float(it.value, &value) && value >= min && value <= max;
        if (!fits || (whole && value != floor(value)))
            return mc_fail(MICA_EFORMAT, "%s: %s%.*s: want %s in %g..%g", patterns.file,
                           patterns.path, MC_STR_ARG(it.key), whole ? "an integer" : "a number",
                           min, max);
        mica_status status = add_valued(adapter, it.key, value, list);
        if (status != MICA_OK)
            return mc_fail_context(status, "%s: %s", patterns.file, patterns.path);
    }
    return MICA_OK;
}

static mica_status read_peft(mc_adapter *adapter, const mc_config_scope *root) {
    MC_TRY(refuse_peft_kinds(root));
    MC_TRY(read_extras(adapter, root));
    MC_TRY(mc_config_int(root, "r", MC_REQUIRED, 1, MAX_RANK, &adapter->rank));
    MC_TRY(
        mc_config_float(root, "lora_alpha", MC_REQUIRED, -MAX_SCALE, MAX_SCALE, &adapter->alpha));
    MC_TRY(mc_config_bool(root, "use_dora", MC_OPTIONAL, &adapter->dora));
    MC_TRY(mc_config_bool(root, "use_rslora", MC_OPTIONAL, &adapter->rslora));
    MC_TRY(read_patterns(adapter, root, "rank_pattern", 1, MAX_RANK, true, &adapter->ranks));
    MC_TRY(read_patterns(adapter, root, "alpha_pattern", -MAX_SCALE, MAX_SCALE, false,
                         &adapter->alphas));
    /* A single text is a pattern or "all-linear", and these options narrow a list: the names of
     * the tensors are then the only list. */
    bool narrowed = is_set(root, "layers_to_transform") || is_set(root, "exclude_modules");
    mc_str one;
    bool is_text = mc_json_get_str(mc_json_find(root->object, "target_modules"), &one);
    return narrowed || is_text ? MICA_OK : read_targets(adapter, root, "target_modules");
}

static mica_status read_config(mc_adapter *adapter) {
    MC_TRY(mc_config_load(adapter->path, "adapter_config.json", MC_REQUIRED, &adapter->config));
    mc_config_scope root = mc_config_root(adapter->config);
    adapter->peft = mc_config_has(&root, "peft_type");
    if (adapter->peft) return read_peft(adapter, &root);
    if (mc_config_has(&root, "lora_parameters") || mc_config_has(&root, "fine_tune_type"))
        return read_mlx(adapter, &root);
    return mc_fail(MICA_EFORMAT,
                   "%s: neither an adapter of mlx-lm (fine_tune_type, lora_parameters) nor of PEFT "
                   "(peft_type)",
                   root.file);
}

/* ---- patterns ---- */

/* Sets *value to that of the first pattern that matches the module; unchanged if none does. */
static mica_status look_up(mc_adapter *adapter, const mc_buffer *patterns, const char *module,
                           double *value) {
    bool matches = false;
    for (size_t i = 0; i < MC_BUFFER_COUNT(patterns, valued) && !matches; i++) {
        const valued *v = &MC_BUFFER_AT(patterns, valued)[i];
        mica_status status = mc_name_matches(v->pattern, module, &adapter->steps, &matches);
        if (status != MICA_OK)
            return mc_fail_context(status, "%s: adapter_config.json", adapter->path);
        if (matches) *value = v->value;
    }
    return MICA_OK;
}

static void free_patterns(mc_buffer *patterns) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(patterns, valued); i++)
        mc_name_pattern_free(MC_BUFFER_AT(patterns, valued)[i].pattern);
    mc_buffer_deinit(patterns);
}

static mica_status set_scale(mc_adapter *adapter, mc_adapter_pair *pair) {
    pair->rank = adapter->rank;
    pair->scale = adapter->scale;
    if (!adapter->peft) return MICA_OK;
    double rank = (double)adapter->rank, alpha = adapter->alpha;
    MC_TRY(look_up(adapter, &adapter->ranks, pair->module, &rank));
    MC_TRY(look_up(adapter, &adapter->alphas, pair->module, &alpha));
    pair->rank = (int64_t)rank;
    pair->scale = alpha / (adapter->rslora ? sqrt(rank) : rank);
    return MICA_OK;
}

/* ---- tensors ---- */

enum part { FIRST, SECOND, MAGNITUDE, BIAS };

static const struct {
    const char *suffix;
    mc_adapter_kind kind;
    enum part part;
} halves[] = {
    {".lora_a", MC_ADAPTER_MLX, FIRST},
    {".lora_b", MC_ADAPTER_MLX, SECOND},
    {".m", MC_ADAPTER_MLX, MAGNITUDE},
    {".lora_A.weight", MC_ADAPTER_PEFT, FIRST},
    {".lora_B.weight", MC_ADAPTER_PEFT, SECOND},
    {".lora_B.bias", MC_ADAPTER_PEFT, BIAS},
    {".lora_magnitude_vector", MC_ADAPTER_PEFT, MAGNITUDE},
    {".lora_magnitude_vector.weight", MC_ADAPTER_PEFT, MAGNITUDE},
    {".lora_embedding_A", MC_ADAPTER_PEFT_EMBEDDING, FIRST},
    {".lora_embedding_B", MC_ADAPTER_PEFT_EMBEDDING, SECOND},
};

enum { HALVES = sizeof halves / sizeof *halves };

/* A tensor's name without that of PEFT's model around the model. */
static mc_str unwrap(const mc_adapter *adapter, const char *name) {
    static const mc_str wrapper = {"base_model.model.", 17};
    mc_str text = mc_str_of(name);
    if (!adapter->peft || !mc_str_starts(text, wrapper)) return text;
    return (mc_str){text.ptr + wrapper.len, text.len - wrapper.len};
}

/* Which part of a pair a tensor is, and its module; HALVES: none. */
static size_t parse_name(const mc_adapter *adapter, const char *name, mc_str *module) {
    mc_str text = unwrap(adapter, name);
    size_t i = 0;
    for (; i < HALVES; i++)
        if ((halves[i].kind != MC_ADAPTER_MLX) == adapter->peft &&
            (adapter->dora || halves[i].part != MAGNITUDE) &&
            (adapter->lora_bias || halves[i].part != BIAS) &&
            mc_str_ends(text, mc_str_of(halves[i].suffix)))
            break;
    if (i == HALVES) return i;
    text.len -= strlen(halves[i].suffix);
    *module = text;
    return i;
}

/* ---- substitutes ---- */

/* The list of token ids of a module: trainable_token_indices is such a list, of the embedding, or
 * lists by the ends of modules' names. NONE: there is none. */
static mc_json find_token_rows(const mc_adapter *adapter, mc_str module) {
    const mc_json none = {0};
    mc_json all = adapter->token_rows;
    if (mc_json_get_type(all) == MC_JSON_ARRAY) return all;
    for (mc_json_iter it = mc_json_begin(all); mc_json_next(&it);) {
        bool ends = mc_str_ends(module, it.key) &&
                    (module.len == it.key.len || module.ptr[module.len - it.key.len - 1] == '.');
        if (ends) return it.value;
    }
    /* Only one of tied modules is named. */
    mc_json_iter first = mc_json_begin(all);
    return mc_json_count(all) == 1 && mc_json_next(&first) ? first.value : none;
}

static mica_status read_token_rows(mc_adapter *adapter, mc_str module,
                                   mc_adapter_substitute *substitute) {
    const mc_weight_tensor *t = substitute->tensor;
    mc_json list = find_token_rows(adapter, module);
    size_t n = mc_json_count(list), i = 0;
    int64_t *rows = mc_arena_alloc(&adapter->arena, (n + 1) * sizeof *rows);
    if (!rows) return mc_fail_nomem("an adapter");
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); i++)
        if (!mc_json_get_int(it.value, &rows[i]) || rows[i] < 0 || rows[i] > INT32_MAX)
            return mc_fail(MICA_EFORMAT,
                           "%s: adapter_config.json: trainable_token_indices: want token ids",
                           adapter->path);
    if (t->ndim != 2 || (uint64_t)t->shape[0] != n)
        return mc_fail(MICA_ESHAPE,
                       "%s: tensor %s does not fit the %zu ids of trainable_token_indices", t->file,
                       t->name, n);
    substitute->rows = rows;
    substitute->row_count = n;
    return MICA_OK;
}

/* Joins a module's name and what follows. */
static const char *join(mc_adapter *adapter, mc_str module, const char *ending) {
    size_t len = strlen(ending);
    char *text = mc_arena_alloc(&adapter->arena, module.len + len + 1);
    if (!text) return NULL;
    memcpy(text, module.ptr, module.len);
    memcpy(text + module.len, ending, len + 1);
    return text;
}

/* Adds a tensor that is no part of a pair, if it is a substitute. */
static mica_status take_substitute(mc_adapter *adapter, const mc_weight_tensor *t, bool *taken) {
    static const struct {
        const char *suffix, *ending;
        bool copy, rows, saved;
    } kinds[] = {
        {".token_adapter.trainable_tokens_delta", ".weight", false, true, false},
        {".base_layer.weight", ".weight", true, false, false},
        {".base_layer.bias", ".bias", true, false, false},
        {".weight", ".weight", false, false, true},
        {".bias", ".bias", false, false, true},
        /* Where nothing is saved by name: of a vocabulary that was resized. */
        {"embed_tokens.weight", "embed_tokens.weight", true, false, false},
        {"lm_head.weight", "lm_head.weight", true, false, false},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    mc_str name = unwrap(adapter, t->name);
    size_t i = 0;
    while (i < KINDS &&
           ((kinds[i].saved && !adapter->saves) || !mc_str_ends(name, mc_str_of(kinds[i].suffix))))
        i++;
    *taken = i < KINDS && adapter->peft;
    if (!*taken) return MICA_OK;
    mc_str module = {name.ptr, name.len - strlen(kinds[i].suffix)};
    mc_adapter_substitute substitute = {
        .name = join(adapter, module, kinds[i].ending), .tensor = t, .copy = kinds[i].copy};
    if (!substitute.name) return mc_fail_nomem("an adapter");
    if (kinds[i].rows) MC_TRY(read_token_rows(adapter, module, &substitute));
    return MC_BUFFER_PUSH(&adapter->substitutes, mc_adapter_substitute, substitute)
               ? MICA_OK
               : mc_fail_nomem("an adapter");
}

/* All tensors of full training have the names of the model's. */
static mica_status take_full(mc_adapter *adapter) {
    for (size_t i = 0; i < mc_weights_count(adapter->weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(adapter->weights, i);
        const mc_adapter_substitute substitute = {.name = t->name, .tensor = t, .copy = true};
        if (!MC_BUFFER_PUSH(&adapter->substitutes, mc_adapter_substitute, substitute))
            return mc_fail_nomem("an adapter");
    }
    return MICA_OK;
}

/* ---- pairs ---- */

/* Sets *at to the index of the module's pair, which is created for its first half. */
static mica_status take_pair(mc_adapter *adapter, mc_map *by_module, mc_str module, size_t half,
                             size_t *at) {
    uint64_t found;
    if (mc_map_find(by_module, module, &found)) {
        *at = (size_t)found;
        return MICA_OK;
    }
    *at = mc_adapter_count(adapter);
    mc_adapter_pair pair = {.module = mc_arena_strndup(&adapter->arena, module.ptr, module.len),
                            .kind = halves[half].kind};
    if (!pair.module || !mc_map_put(by_module, module, *at)) return mc_fail_nomem("an adapter");
    MC_TRY(set_scale(adapter, &pair));
    return MC_BUFFER_PUSH(&adapter->pairs, mc_adapter_pair, pair) ? MICA_OK
                                                                  : mc_fail_nomem("an adapter");
}

static mica_status sort_tensors(mc_adapter *adapter, mc_map *by_module, mc_names *others) {
    for (size_t i = 0; i < mc_weights_count(adapter->weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(adapter->weights, i);
        mc_str module;
        size_t at, half = parse_name(adapter, t->name, &module);
        if (half == HALVES) {
            bool taken;
            MC_TRY(take_substitute(adapter, t, &taken));
            if (!taken) MC_TRY(mc_names_add(others, t->name));
            continue;
        }
        MC_TRY(take_pair(adapter, by_module, module, half, &at));
        mc_adapter_pair *pair = &MC_BUFFER_AT(&adapter->pairs, mc_adapter_pair)[at];
        const mc_weight_tensor **const places[] = {&pair->a, &pair->b, &pair->m, &pair->bias};
        const mc_weight_tensor **place = places[halves[half].part];
        if (*place || pair->kind != halves[half].kind)
            MC_TRY(mc_names_add(others, t->name));
        else
            *place = t;
    }
    return MICA_OK;
}

static mica_status check_tensors(const mc_adapter *adapter, mc_names *others) {
    if (others->count) {
        const char *names = mc_names_text(others);
        if (!names) return mc_fail_nomem("a list of tensors");
        return mc_fail(MICA_EUNSUPPORTED,
                       "%s: %zu tensors do not have the names of %s's low-rank factors: %s",
                       adapter->path, others->count, adapter->peft ? "PEFT" : "mlx-lm", names);
    }
    if (!mc_adapter_count(adapter) && !mc_adapter_substitute_count(adapter))
        return mc_fail(MICA_EFORMAT, "%s: the adapter holds no tensors", adapter->path);
    for (size_t i = 0; i < mc_adapter_count(adapter); i++) {
        const mc_adapter_pair *pair = mc_adapter_at(adapter, i);
        const mc_weight_tensor *there = pair->a   ? pair->a
                                        : pair->b ? pair->b
                                        : pair->m ? pair->m
                                                  : pair->bias;
        if (adapter->dora && pair->a && pair->b && !pair->m)
            return mc_fail(MICA_ENOENT, "%s: tensor %s: the magnitudes of its pair are missing",
                           there->file, there->name);
        if (!pair->a || !pair->b)
            return mc_fail(MICA_ENOENT, "%s: tensor %s: the %s factor of its pair is missing",
                           there->file, there->name, pair->a ? "second" : "first");
    }
    return MICA_OK;
}

static mica_status read_pairs(mc_adapter *adapter) {
    if (adapter->full && mc_weights_count(adapter->weights)) return take_full(adapter);
    mc_map by_module = {0};
    mc_names others = {0};
    mica_status status = sort_tensors(adapter, &by_module, &others);
    if (status == MICA_OK) status = check_tensors(adapter, &others);
    mc_names_deinit(&others);
    mc_map_deinit(&by_module);
    return status;
}

/* ---- the whole ---- */

static mica_status check_folder(const char *folder) {
    if (mc_path_is_file(folder))
        return mc_fail(MICA_EINVAL,
                       "%s: is a file: an adapter is the folder that holds adapter_config.json and "
                       "the tensors",
                       folder);
    if (mc_path_is_dir(folder)) return MICA_OK;
    return mc_fail(MICA_ENOENT, "%s: no such folder", folder);
}

static mica_status open_weights(mc_adapter *adapter) {
    const char *name = adapter->peft ? "adapter_model.safetensors" : "adapters.safetensors";
    char *path = mc_path_join(adapter->path, name);
    if (!path) return mc_fail_nomem(name);
    mica_status status = mc_weights_open(path, NULL, &adapter->weights);
    mc_free(path);
    return status;
}

static mica_status open_parts(mc_adapter *adapter, const char *folder) {
    adapter->path = mc_arena_strndup(&adapter->arena, folder, strlen(folder));
    if (!adapter->path) return mc_fail_nomem("an adapter");
    MC_TRY(check_folder(folder));
    MC_TRY(read_config(adapter));
    MC_TRY(open_weights(adapter));
    return read_pairs(adapter);
}

mica_status mc_adapter_open(const char *folder, mc_adapter **adapter) {
    *adapter = mc_calloc(1, sizeof **adapter);
    if (!*adapter) return mc_fail_nomem("an adapter");
    (*adapter)->bytes = MC_NAME_BYTES;
    (*adapter)->steps = MC_NAME_STEPS;
    mica_status status = open_parts(*adapter, folder);
    if (status != MICA_OK) mc_adapter_close(adapter);
    return status;
}

void mc_adapter_close(mc_adapter **adapter) {
    if (!*adapter) return;
    mc_weights_close(&(*adapter)->weights);
    mc_config_close(&(*adapter)->config);
    mc_buffer_deinit(&(*adapter)->pairs);
    mc_buffer_deinit(&(*adapter)->substitutes);
    free_patterns(&(*adapter)->ranks);
    free_patterns(&(*adapter)->alphas);
    mc_arena_deinit(&(*adapter)->arena);
    mc_free(*adapter);
    *adapter = NULL;
}

size_t mc_adapter_substitute_count(const mc_adapter *adapter) {
    return MC_BUFFER_COUNT(&adapter->substitutes, mc_adapter_substitute);
}

const mc_adapter_substitute *mc_adapter_substitute_at(const mc_adapter *adapter, size_t i) {
    return &MC_BUFFER_AT(&adapter->substitutes, mc_adapter_substitute)[i];
}

bool mc_adapter_is_full(const mc_adapter *adapter) {
    return adapter->full;
}

bool mc_adapter_is_peft(const mc_adapter *adapter) {
    return adapter->peft;
}

size_t mc_adapter_count(const mc_adapter *adapter) {
    return MC_BUFFER_COUNT(&adapter->pairs, mc_adapter_pair);
}

const mc_adapter_pair *mc_adapter_at(const mc_adapter *adapter, size_t i) {
    return &MC_BUFFER_AT(&adapter->pairs, mc_adapter_pair)[i];
}

void mc_adapter_set_pairs(mc_adapter *adapter, mc_buffer *pairs) {
    const mc_buffer old = adapter->pairs;
    adapter->pairs = *pairs;
    *pairs = old;
}

void *mc_adapter_room(mc_adapter *adapter, size_t bytes) {
    return mc_arena_calloc(&adapter->arena, bytes);
}

const char *mc_adapter_path(const mc_adapter *adapter) {
    return adapter->path;
}

int mc_adapter_first_layer(const mc_adapter *adapter, int n_layers) {
    if (adapter->num_layers < 1 || adapter->num_layers >= n_layers) return 0;
    return n_layers - (int)adapter->num_layers;
}

/* Whether `target` names the module. A target may be the module's whole name. Else PEFT's target is
 * what follows one of the name's dots, and mlx-lm's is the name within its block, for blocks that
 * have adapters. */
static bool names_module(const mc_adapter *adapter, mc_str target, bool late, mc_str module,
                         mc_str name) {
    if (mc_str_eq(target, module)) return true;
    if (!adapter->peft) return late && mc_str_eq(target, name);
    return mc_str_ends(module, target) && module.ptr[module.len - target.len - 1] == '.';
}

bool mc_adapter_expects(const mc_adapter *adapter, int layer, int n_layers, const char *module,
                        const char *name) {
    bool late = layer < 0 || layer >= mc_adapter_first_layer(adapter, n_layers);
    for (size_t i = 0; i < adapter->target_count; i++)
        if (names_module(adapter, adapter->targets[i], late, mc_str_of(module), mc_str_of(name)))
            return true;
    return false;
}

#include "io/published.h"

#include "base/alloc.h"
#include "io/published_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512
#define MAX_DEPTH 8 /* of a quantization_config that is looked through */

/* The formats. Of those whose tensors a matrix has, the first that its shapes fit is taken. */
static const mc_published_kind *const kinds[] = {
    &mc_published_packed, &mc_published_nvfp4_packed, &mc_published_mxfp4, &mc_published_mxfp8,
    &mc_published_fp8,    &mc_published_e5m2,         &mc_published_nvfp4, &mc_published_int8,
    &mc_published_gptq,   &mc_published_awq,
};

/* ---- what a config says ---- */

/* Methods that are read, and values of a key, with '|' around each, that are: others have layouts
 * that mica does not know. */
static const struct {
    const char *name, *key, *values;
} methods[] = {
    {"fp8", NULL, NULL},
    {"fbgemm_fp8", NULL, NULL},
    {"mxfp4", NULL, NULL},
    {"mxfp8", NULL, NULL},
    {"nvfp4", NULL, NULL},
    {"compressed-tensors", "format",
     "|dense|pack-quantized|int-quantized|float-quantized|naive-quantized|mixed-precision|"
     "nvfp4-pack-quantized|mxfp4-pack-quantized|mxfp8-quantized|"},
    {"compressed_tensors", NULL, NULL},
    {"gptq", "checkpoint_format", "|gptq|gptq_v2|"},
    {"awq", "version", "|gemm|GEMM|"},
    {"modelopt", NULL, NULL},
    {"modelopt_fp4", NULL, NULL},
    {"auto-round", "packing_format",
     "|auto_round:auto_gptq|auto_round:auto_awq|auto_round:gptq|auto_round:awq|"},
};

static const char other_ways[] =
    "take the model that it was made of, and make it small by mica quantize, or take one in the "
    "layout of MLX, fp8, compressed-tensors, GPTQ, AWQ or ModelOpt";

static mica_status check_value(const mc_config_scope *scope, mc_str method, const char *key,
                               const char *values) {
    char text[80];
    mc_str value = {NULL, 0};
    MC_TRY(mc_config_str(scope, key, MC_OPTIONAL, &value));
    if (!value.ptr) return MICA_OK;
    snprintf(text, sizeof text, "|%.*s|", value.len < 64 ? (int)value.len : 64, value.ptr);
    if (strstr(values, text)) return MICA_OK;
    return mc_config_fail(
        scope, key, MICA_EUNSUPPORTED, "\"%.*s\" of %.*s: mica does not read this layout: %s",
        value.len < 64 ? (int)value.len : 64, value.ptr, MC_STR_ARG(method), other_ways);
}

mica_status mc_published_check(const mc_config_scope *scope, mc_str *method) {
    MC_TRY(mc_config_str(scope, "quant_method", MC_REQUIRED, method));
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (mc_str_is(*method, methods[i].name))
            return methods[i].key ? check_value(scope, *method, methods[i].key, methods[i].values)
                                  : MICA_OK;
    return mc_config_fail(scope, "quant_method", MICA_EUNSUPPORTED,
                          "\"%.*s\": mica does not read weights quantised so: %s",
                          method->len < 64 ? (int)method->len : 64, method->ptr, other_ways);
}

static void add_group(mc_published_facts *facts, int64_t size) {
    for (size_t i = 0; i < facts->n_groups; i++)
        if (facts->groups[i] == size) return;
    if (facts->n_groups < sizeof facts->groups / sizeof *facts->groups)
        facts->groups[facts->n_groups++] = size;
}

/* "weight_block_size": [128, 128]. */
static void read_block(mc_json v, mc_published_facts *facts) {
    int64_t sizes[2] = {0};
    size_t n = 0;
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it) && n < 2; n++)
        if (!mc_json_get_int(it.value, &sizes[n]) || sizes[n] < 1 || sizes[n] > INT32_MAX) return;
    if (n == 2) memcpy(facts->block, sizes, sizeof sizes);
}

static void read_fact(mc_str key, mc_json v, mc_published_facts *facts) {
    int64_t n;
    bool flag = false;
    mc_str text = {"", 0};
    (void)mc_json_get_bool(v, &flag);
    (void)mc_json_get_str(v, &text);
    if (mc_str_is(key, "group_size") && mc_json_get_int(v, &n)) add_group(facts, n);
    if ((mc_str_is(key, "bits") || mc_str_is(key, "num_bits")) && mc_json_get_int(v, &n))
        facts->bits = n;
    if (mc_str_is(key, "weight_block_size") || mc_str_is(key, "block_structure"))
        read_block(v, facts);
    if (mc_str_is(key, "checkpoint_format")) facts->v2 = mc_str_is(text, "gptq_v2");
    if (mc_str_is(key, "sym")) facts->symmetric = flag;
    if (mc_str_is(key, "desc_act")) facts->shuffled = flag;
    if (mc_str_is(key, "actorder")) facts->shuffled = mc_json_exists(v) && !mc_str_is(text, "");
    if (mc_str_is(key, "scale_fmt")) facts->powers = mc_str_is(text, "ue8m0");
}

/* What is about activations and caches is left out. */
static bool is_about_weights(mc_str key) {
    return !mc_str_is(key, "input_activations") && !mc_str_is(key, "output_activations") &&
           !mc_str_is(key, "kv_cache_scheme");
}

static void read_facts(mc_json v, int depth, mc_published_facts *facts) {
    for (mc_json_iter it = mc_json_begin(v); depth < MAX_DEPTH && mc_json_next(&it);) {
        mc_str key = it.object ? it.key : MC_STR("");
        if (!is_about_weights(key)) continue;
        read_fact(key, it.value, facts);
        read_facts(it.value, depth + 1, facts);
    }
}

/* ---- what a matrix has ---- */

typedef struct seeing {
    mc_published_facts facts;
    mc_weight_form form;
    mc_arena *arena;
    const mc_buffer *tensors;
    const mc_map *by_name;
    bool *taken;    /* [tensors]: parts of matrices */
    mc_buffer seen; /* mc_weight_tensor[] */
} seeing;

/* The tensor "stem" "ending"; NULL: there is none. */
static const mc_weight_tensor *find_tensor(const mc_buffer *tensors, const mc_map *by_name,
                                           mc_str stem, const char *ending) {
    char name[NAME_BYTES];
    uint64_t i;
    if (!ending || stem.len + strlen(ending) >= sizeof name) return NULL;
    snprintf(name, sizeof name, "%.*s%s", MC_STR_ARG(stem), ending);
    if (!mc_map_find(by_name, mc_str_of(name), &i)) return NULL;
    return &MC_BUFFER_AT(tensors, const mc_weight_tensor)[i];
}

/* The scales that a tensor has if it is the codes of a kind; NULL: it is not. */
static const mc_weight_tensor *scales_of(const mc_buffer *tensors, const mc_map *by_name,
                                         const mc_published_kind *kind, const mc_weight_tensor *t) {
    static const char *const other[] = {"U8", "F8_E4M3"};
    const mc_weight_tensor *scales;
    mc_str stem = mc_str_of(t->name);
    if (!mc_published_is_kind(t, kind->dtype) || !mc_str_ends(stem, mc_str_of(kind->codes)))
        return NULL;
    stem.len -= strlen(kind->codes);
    scales = find_tensor(tensors, by_name, stem, kind->scales[0]);
    if (!scales) scales = find_tensor(tensors, by_name, stem, kind->scales[1]);
    if (!scales || scales == t) return NULL;
    if (kind->scales_dtype)
        return mc_published_is_kind(scales, kind->scales_dtype) ||
                       (mc_published_is_kind(scales, "F8_E8M0") &&
                        strcmp(kind->scales_dtype, "U8") == 0)
                   ? scales
                   : NULL;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (mc_published_is_kind(scales, other[i])) return NULL;
    return scales;
}

bool mc_published_has(const mc_buffer *tensors, const mc_map *by_name) {
    const mc_weight_tensor *all = MC_BUFFER_AT(tensors, const mc_weight_tensor);
    for (size_t i = 0; i < MC_BUFFER_COUNT(tensors, mc_weight_tensor); i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (scales_of(tensors, by_name, kinds[k], &all[i])) return true;
    return false;
}

static mica_status take_part(seeing *s, mc_published *m, int part, const mc_weight_tensor *t) {
    if (!t) return MICA_OK;
    const mc_weight_tensor *all = MC_BUFFER_AT(s->tensors, const mc_weight_tensor);
    mc_weight_tensor *copy = mc_arena_alloc(s->arena, sizeof *copy);
    if (!copy) return mc_fail_nomem(t->file);
    *copy = *t;
    m->part[part] = copy;
    m->bytes += t->bytes;
    s->taken[t - all] = true;
    return MICA_OK;
}

/* Finds all parts of a matrix. */
static mica_status take_parts(seeing *s, mc_published *m, const mc_weight_tensor *codes,
                              const mc_weight_tensor *scales) {
    mc_str stem = mc_str_of(codes->name), ending = MC_STR(".weight");
    stem.len -= strlen(m->kind->codes);
    MC_TRY(take_part(s, m, MC_PART_CODES, codes));
    MC_TRY(take_part(s, m, MC_PART_SCALES, scales));
    for (int i = MC_PART_ZEROS; i < MC_PARTS; i++)
        MC_TRY(take_part(s, m, i, find_tensor(s->tensors, s->by_name, stem, m->kind->parts[i])));
    if (mc_str_ends(stem, ending)) stem.len -= ending.len;
    m->module = mc_arena_strndup(s->arena, stem.ptr, stem.len);
    return m->module ? MICA_OK : mc_fail_nomem(codes->file);
}

/* ---- what it is seen as ---- */

static bool is_row_of_powers(const mc_published *m, int64_t row) {
    int power;
    for (int64_t i = 0; i < mc_published_groups(m); i++)
        if (!mc_published_power(m, row, i, &power)) return false;
    return true;
}

/* Blocks begin anew in each matrix, whose last ones may have fewer rows. */
static bool all_powers(const seeing *s, const mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    if (m->group % 32 && m->group < m->in) return false;
    if (mc_published_is_kind(t, "F8_E8M0")) return true;
    if (!t->data) return s->facts.powers;
    for (int64_t i = 0; i < m->matrices; i++)
        for (int64_t row = 0; row < m->out; row += m->block_rows)
            if (!is_row_of_powers(m, i * m->out + row)) return false;
    return true;
}

/* Whether columns may have an order: not those of experts, of which one array takes all. */
static bool may_sort(const seeing *s, const mc_published *m) {
    return s->form == MC_FORM_RUN && m->kind->codes_of && !m->plain && !m->stacked &&
           !strstr(m->module, ".experts.");
}

/* Sorts the columns by their groups, where all of these are whole: a stable counting sort. Headers
 * do not show the groups: they are taken to be so. false: no memory. */
static bool sort_columns(const seeing *s, mc_published *m) {
    const int32_t *order = m->part[MC_PART_ORDER]->data;
    int64_t groups = mc_published_groups(m);
    int32_t *sorted = mc_arena_calloc(s->arena, (size_t)m->in * sizeof *sorted);
    int32_t *at = mc_array_alloc((size_t)groups, sizeof *at);
    bool whole = sorted && at && m->in % m->group == 0;
    for (int64_t g = 0; whole && g < groups; g++)
        at[g] = (int32_t)(g * m->group);
    for (int64_t i = 0; whole && order && i < m->in; i++) {
        int32_t g = order[i];
        if (at[g] == (g + 1) * m->group)
            whole = false;
        else
            sorted[at[g]++] = (int32_t)i;
    }
    if (whole) m->sorted = sorted;
    bool done = sorted && at;
    mc_free(at);
    return done;
}

static mc_published_way integer_way(const mc_published *m) {
    bool known = mc_published_our_group(m->group, m->in) != 0;
    if (m->in % 32) return MC_WAY_FLOATS;
    return known && (m->plain || m->sorted) ? MC_WAY_CODES : MC_WAY_EIGHT;
}

static mc_published_way float_way(const seeing *s, const mc_published *m) {
    bool run = s->form == MC_FORM_RUN, e4m3 = m->kind == &mc_published_fp8;
    if (m->kind->mode != MICA_QUANT_AFFINE && (run || !m->part[MC_PART_WHOLE])) return MC_WAY_SAME;
    if (m->in % 32) return MC_WAY_FLOATS;
    if (e4m3 && all_powers(s, m)) return MC_WAY_POWERS;
    return e4m3 && run && m->group >= m->in ? MC_WAY_ROWS : MC_WAY_EIGHT;
}

/* Affine scales have the dtype of the file's, but where products with zero points would be rounded
 * in it; so have floats, but for f32. */
static mica_dtype scales_dtype(const seeing *s, const mc_published *m) {
    const mc_weight_tensor *t = m->part[MC_PART_SCALES];
    bool middle = !m->part[MC_PART_ZEROS] || s->facts.symmetric;
    if (!t->has_dtype || !mica_dtype_is_float(t->dtype)) return MICA_F32;
    return middle ? t->dtype : MICA_F32;
}

static void choose(const seeing *s, mc_published *m) {
    static const mica_quant modes[] = {[MICA_QUANT_MXFP4] = {MICA_QUANT_MXFP4, 4, 32},
                                       [MICA_QUANT_MXFP8] = {MICA_QUANT_MXFP8, 8, 32},
                                       [MICA_QUANT_NVFP4] = {MICA_QUANT_NVFP4, 4, 16}};
    bool half = mc_published_is_kind(m->part[MC_PART_SCALES], "F16");
    m->way = m->kind->codes_of ? integer_way(m) : float_way(s, m);
    if (s->form >= MC_FORM_FLOATS) m->way = MC_WAY_FLOATS;
    m->exact = s->form == MC_FORM_F32 || (m->way != MC_WAY_FLOATS && m->way != MC_WAY_EIGHT);
    m->dtype = half && m->way == MC_WAY_FLOATS ? MICA_F16 : MICA_BF16;
    if (s->form == MC_FORM_F32) m->dtype = MICA_F32;
    if (m->way == MC_WAY_SAME) m->quant = modes[m->kind->mode];
    if (m->way == MC_WAY_POWERS || m->way == MC_WAY_ROWS) m->quant = modes[MICA_QUANT_MXFP8];
    if (m->way == MC_WAY_EIGHT) m->quant = (mica_quant){MICA_QUANT_AFFINE, 8, m->in % 64 ? 32 : 64};
    if (m->way != MC_WAY_CODES) return;
    m->dtype = scales_dtype(s, m);
    m->quant = (mica_quant){MICA_QUANT_AFFINE, m->bits, mc_published_our_group(m->group, m->in)};
}

static const char *kind_of(mica_dtype dtype) {
    return dtype == MICA_U32    ? "U32"
           : dtype == MICA_U8   ? "U8"
           : dtype == MICA_F32  ? "F32"
           : dtype == MICA_BF16 ? "BF16"
                                : "F16";
}

/* Adds module.ending [.., rows, columns] (columns 0: [.., rows]), which has the bytes of `same`, or
 * is made. */
static mica_status add(seeing *s, mc_published *m, const char *ending, mica_dtype dtype,
                       int64_t columns, mc_made_part part, const mc_weight_tensor *same) {
    char name[NAME_BYTES];
    const mc_weight_tensor *codes = m->part[MC_PART_CODES];
    mc_weight_tensor t = {.file = codes->file,
                          .kind = kind_of(dtype),
                          .has_dtype = true,
                          .dtype = dtype,
                          .begin = codes->begin};
    snprintf(name, sizeof name, "%s.%s", m->module, ending);
    t.name = mc_arena_strndup(s->arena, name, strlen(name));
    mc_made *made = mc_arena_alloc(s->arena, sizeof *made);
    if (!made || !t.name) return mc_fail_nomem(codes->file);
    if (m->stacked) t.shape[t.ndim++] = m->matrices;
    t.shape[t.ndim++] = m->out;
    if (columns) t.shape[t.ndim++] = columns;
    t.bytes = (size_t)(m->matrices * m->out * (columns ? columns : 1)) * mica_dtype_bytes(dtype);
    if (part == MC_MADE_CODES) t.quant = m->quant, t.from = m;
    bool aligned = same && (uintptr_t)same->data % mica_dtype_bytes(dtype) == 0;
    *made = (mc_made){m, part, same && !aligned ? same->data : NULL};
    if (same && same->bytes != t.bytes) return mc_published_bad(same, MICA_ESHAPE, "is too small");
    if (aligned) t.data = same->data;
    if (!aligned && codes->data) t.made = made;
    m->made += t.bytes;
    return MC_BUFFER_PUSH(&s->seen, mc_weight_tensor, t) ? MICA_OK : mc_fail_nomem(codes->file);
}

/* Whether the file's codes are ours. */
static bool same_codes(const mc_published *m) {
    return m->way >= MC_WAY_POWERS ||
           (m->way == MC_WAY_CODES && !m->sorted && m->kind == &mc_published_packed && !m->whole);
}

/* Adds module.order, i32 [in]: the column of the matrix that a column of codes is. */
static mica_status add_order(seeing *s, mc_published *m) {
    char name[NAME_BYTES];
    const mc_weight_tensor *order = m->part[MC_PART_ORDER];
    mc_weight_tensor t = {.file = order->file,
                          .kind = "I32",
                          .has_dtype = true,
                          .dtype = MICA_I32,
                          .ndim = 1,
                          .shape = {m->in},
                          .bytes = (size_t)m->in * sizeof(int32_t),
                          .begin = order->begin,
                          .data = order->data ? m->sorted : NULL};
    snprintf(name, sizeof name, "%s.order", m->module);
    t.name = mc_arena_strndup(s->arena, name, strlen(name));
    m->made += t.bytes;
    return t.name && MC_BUFFER_PUSH(&s->seen, mc_weight_tensor, t) ? MICA_OK
                                                                   : mc_fail_nomem(order->file);
}

static mica_status add_all(seeing *s, mc_published *m) {
    const mc_weight_tensor *codes = m->part[MC_PART_CODES], *scales = m->part[MC_PART_SCALES];
    bool affine = m->quant.mode == MICA_QUANT_AFFINE;
    if (m->way == MC_WAY_FLOATS) return add(s, m, "weight", m->dtype, m->in, MC_MADE_CODES, NULL);
    MC_TRY(add(s, m, "weight", MICA_U32, m->in * m->quant.bits / 32, MC_MADE_CODES,
               same_codes(m) ? codes : NULL));
    MC_TRY(add(s, m, "scales", affine ? m->dtype : MICA_U8, m->in / m->quant.group_size,
               MC_MADE_SCALES, m->way == MC_WAY_SAME ? scales : NULL));
    if (m->sorted) MC_TRY(add_order(s, m));
    if (affine)
        return add(s, m, "biases", m->dtype, m->in / m->quant.group_size, MC_MADE_BIASES, NULL);
    bool gains = m->way == MC_WAY_ROWS || (m->way == MC_WAY_SAME && m->part[MC_PART_WHOLE]);
    return gains ? add(s, m, "gains", MICA_F32, 0, MC_MADE_GAINS, NULL) : MICA_OK;
}

/* ---- the whole ---- */

/* Sees one tensor: what it is the codes of, or as it is. Scales and the like of a matrix are not
 * among what is seen. */
static mica_status see_codes(seeing *s, const mc_published_kind *kind, const mc_weight_tensor *t,
                             const mc_weight_tensor *scales, bool *fits) {
    mc_published *m = mc_arena_calloc(s->arena, sizeof *m);
    if (!m) return mc_fail_nomem(t->file);
    m->kind = kind;
    m->part[MC_PART_CODES] = t;
    m->part[MC_PART_SCALES] = scales;
    *fits = !kind->is || kind->is(m);
    if (!*fits) return MICA_OK;
    MC_TRY(take_parts(s, m, t, scales));
    MC_TRY(kind->fit(&s->facts, m));
    if (may_sort(s, m) && !sort_columns(s, m)) return mc_fail_nomem(t->file);
    choose(s, m);
    return add_all(s, m);
}

/* Whether a tensor can be nothing but the codes of a kind, by its ending. */
static bool is_codes(const mc_published_kind *kind, const mc_weight_tensor *t) {
    return *kind->codes && mc_published_is_kind(t, kind->dtype) &&
           mc_str_ends(mc_str_of(t->name), mc_str_of(kind->codes));
}

static mica_status see_tensor(seeing *s, const mc_weight_tensor *t, bool *seen) {
    const mc_published_kind *codes_of = NULL;
    bool shapes = false;
    *seen = false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !*seen; k++) {
        const mc_weight_tensor *scales = scales_of(s->tensors, s->by_name, kinds[k], t);
        if (scales) MC_TRY(see_codes(s, kinds[k], t, scales, seen));
        if (scales && !*seen) shapes = true;
        if (is_codes(kinds[k], t)) codes_of = kinds[k];
    }
    if (*seen || !codes_of) return MICA_OK;
    if (shapes)
        return mc_published_bad(t, MICA_ESHAPE, "its shape does not fit that of its scales");
    return mc_published_bad(t, MICA_ENOENT, "its scales, *%s, are not beside it",
                            codes_of->scales[0]);
}

/* Scales of activations and caches, which mica computes otherwise. */
static bool is_dropped(const char *name) {
    static const char *const endings[] = {
        ".input_scale", ".activation_scale", "_activation_scale", ".input_global_scale",
        ".k_scale",     ".v_scale",          ".q_scale",          ".output_scale"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (mc_str_ends(mc_str_of(name), mc_str_of(endings[i]))) return true;
    return false;
}

static int compare(const void *a, const void *b) {
    const mc_weight_tensor *x = a, *y = b;
    int files = strcmp(x->file, y->file);
    if (files || x->begin != y->begin) return files ? files : x->begin < y->begin ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Keeps what is no part of a matrix, with what matrices are seen as, in order. */
static mica_status see_all(seeing *s) {
    const mc_weight_tensor *all = MC_BUFFER_AT(s->tensors, const mc_weight_tensor);
    size_t n = MC_BUFFER_COUNT(s->tensors, mc_weight_tensor);
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < n; i++) {
        bool seen;
        status = see_tensor(s, &all[i], &seen);
    }
    for (size_t i = 0; status == MICA_OK && i < n; i++)
        if (!s->taken[i] && !is_dropped(all[i].name) &&
            !MC_BUFFER_PUSH(&s->seen, mc_weight_tensor, all[i]))
            status = mc_fail_nomem("the tensors of a model");
    return status;
}

mica_status mc_published_see(mc_json config, mc_weight_form form, mc_arena *arena,
                             mc_buffer *tensors, const mc_map *by_name) {
    seeing s = {.form = form, .arena = arena, .tensors = tensors, .by_name = by_name};
    size_t n = MC_BUFFER_COUNT(tensors, mc_weight_tensor);
    s.taken = mc_arena_calloc(arena, n + 1);
    if (!s.taken) return mc_fail_nomem("the tensors of a model");
    read_facts(config, 0, &s.facts);
    mica_status status = see_all(&s);
    if (status == MICA_OK) {
        mc_buffer_deinit(tensors);
        *tensors = s.seen;
        qsort(tensors->data, MC_BUFFER_COUNT(tensors, mc_weight_tensor), sizeof(mc_weight_tensor),
              compare);
    } else {
        mc_buffer_deinit(&s.seen);
    }
    return status;
}

#include "convert/gguf_sentence.h"

#include "base/alloc.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "io/safetensors_write.h"
#include "model/load/load.h"

#include <mica/file.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OWN "sentence_transformers."
#define LONGEST OWN "max_seq_length"
#define NORMALISES OWN "normalize"
#define POOLS_PROMPT OWN "include_prompt"
#define PROMPTS OWN "prompts"
#define PROMPT_NAMES OWN "prompt_names"
#define DEFAULT_PROMPT OWN "default_prompt_name"
#define SCORES OWN "activation_fn"
#define ANSWERS_YES OWN "true_token_id"
#define ANSWERS_NO OWN "false_token_id"
#define LABELS "classifier.output_labels"
#define CLASSIFIER_POOLING "classifier.pooling_type"

/* Numbers of pooling_type. */
enum { MEAN = 1, CLS, LAST, RANK };

static const struct {
    int64_t number;
    mc_sentence_pooling pooling;
    const char *flag; /* in a pooling module's config */
} poolings[] = {{MEAN, MC_SENTENCE_MEAN, "pooling_mode_mean_tokens"},
                {CLS, MC_SENTENCE_CLS, "pooling_mode_cls_token"},
                {LAST, MC_SENTENCE_LAST, "pooling_mode_lasttoken"}};

enum { POOLINGS = sizeof poolings / sizeof *poolings };

static mica_status no_memory(void) {
    return mc_fail_nomem("the modules of an embedder");
}

/* ---- the files of a folder ---- */

typedef struct reading {
    const mc_gguf *gguf;
    const mc_gguf_arch *arch;
    const mc_decoder_spec *spec;
    const char *folder;
    int64_t pooling, dense; /* the number of dense modules */
    bool normalises;
    char key[MC_GGUF_KEY_BYTES];
} reading;

/* Saves a text as folder/below/name; below may be "". */
static mica_status save_text(const reading *r, const char *below, const char *name,
                             mc_buffer *text) {
    char *inside = mc_path_join(r->folder, below);
    char *path = inside ? mc_path_join(*below ? inside : r->folder, name) : NULL;
    mica_status status = path ? MICA_OK : no_memory();
    if (status == MICA_OK && *below) status = mc_folder_make(inside);
    if (status == MICA_OK) status = mica_file_save(path, text->data, text->len);
    mc_buffer_deinit(text);
    mc_free(path);
    mc_free(inside);
    return status;
}

static bool put_module(mc_buffer *out, int64_t i, const char *kind, bool numbered) {
    char path[32] = "";
    if (numbered) snprintf(path, sizeof path, "%" PRId64 "_%s", i, kind);
    return mc_buffer_printf(out,
                            "%s\n  {\"idx\": %" PRId64 ", \"name\": \"%" PRId64
                            "\", \"path\": \"%s\", \"type\": \"sentence_transformers.models.%s\"}",
                            i ? "," : "[", i, i, path, kind);
}

static mica_status write_modules(const reading *r) {
    mc_buffer text = {0};
    int64_t n = 2 + r->dense;
    bool done = put_module(&text, 0, "Transformer", false) && put_module(&text, 1, "Pooling", true);
    for (int64_t i = 2; done && i < n; i++)
        done = put_module(&text, i, "Dense", true);
    done = done && (!r->normalises || put_module(&text, n, "Normalize", true)) &&
           mc_buffer_add_text(&text, "\n]\n");
    mica_status status = done ? save_text(r, "", "modules.json", &text) : no_memory();
    mc_buffer_deinit(&text);
    return status;
}

static mica_status write_pooling(const reading *r) {
    mc_buffer text = {0};
    bool whole = true;
    mc_gguf_bool(r->gguf, POOLS_PROMPT, &whole);
    bool done =
        mc_buffer_printf(&text, "{\n  \"word_embedding_dimension\": %" PRId64, r->spec->hidden);
    for (int i = 0; done && i < POOLINGS; i++)
        done = mc_buffer_printf(&text, ",\n  \"%s\": %s", poolings[i].flag,
                                poolings[i].number == r->pooling ? "true" : "false");
    done = done &&
           mc_buffer_printf(&text, ",\n  \"include_prompt\": %s\n}\n", whole ? "true" : "false");
    mica_status status = done ? save_text(r, "1_Pooling", "config.json", &text) : no_memory();
    mc_buffer_deinit(&text);
    return status;
}

static mica_status write_longest(const reading *r) {
    mc_buffer text = {0};
    int64_t longest = r->spec->context;
    mc_gguf_int(r->gguf, LONGEST, &longest);
    if (longest < 1 || longest > INT32_MAX) longest = r->spec->context;
    bool done = mc_buffer_printf(
        &text, "{\n  \"max_seq_length\": %" PRId64 ",\n  \"do_lower_case\": false\n}\n", longest);
    mica_status status = done ? save_text(r, "", "sentence_bert_config.json", &text) : no_memory();
    mc_buffer_deinit(&text);
    return status;
}

/* Prompts by their names, as two lists of one length. */
static bool put_prompts(const reading *r, mc_buffer *out) {
    mc_gguf_iter name = mc_gguf_begin(r->gguf, PROMPT_NAMES),
                 text = mc_gguf_begin(r->gguf, PROMPTS);
    bool there = mc_gguf_has_strs(r->gguf, PROMPT_NAMES) && mc_gguf_has_strs(r->gguf, PROMPTS);
    bool done = mc_buffer_add_text(out, "{\n  \"prompts\": {"), first = true;
    while (done && there && mc_gguf_next(&name) && mc_gguf_next(&text)) {
        if (!mc_utf8_valid(name.text.ptr, name.text.len) ||
            !mc_utf8_valid(text.text.ptr, text.text.len))
            continue;
        done = mc_buffer_add_text(out, first ? "\n    " : ",\n    ") &&
               mc_json_put_str(out, name.text) && mc_buffer_add_text(out, ": ") &&
               mc_json_put_str(out, text.text);
        first = false;
    }
    return done && mc_buffer_add_text(out, "},\n  \"default_prompt_name\": ");
}

static mica_status write_settings(const reading *r) {
    mc_buffer text = {0};
    mc_str name = MC_STR("");
    bool named = mc_gguf_str(r->gguf, DEFAULT_PROMPT, &name) && mc_utf8_valid(name.ptr, name.len);
    bool done = put_prompts(r, &text) &&
                (named ? mc_json_put_str(&text, name) : mc_buffer_add_text(&text, "null")) &&
                mc_buffer_add_text(&text, ",\n  \"similarity_fn_name\": \"cosine\"\n}\n");
    mica_status status =
        done ? save_text(r, "", "config_sentence_transformers.json", &text) : no_memory();
    mc_buffer_deinit(&text);
    return status;
}

/* ---- dense modules ---- */

static mica_status write_matrix(const mc_gguf_tensor *t, const char *path) {
    const mc_weight_tensor tensor = {.name = "linear.weight",
                                     .kind = mc_weight_kind(MICA_F32),
                                     .has_dtype = true,
                                     .dtype = MICA_F32,
                                     .ndim = 2,
                                     .shape = {t->shape[0], t->shape[1]}};
    mc_weights_writer *writer = NULL;
    float values[MC_GGML_BLOCK];
    mica_status status = mc_weights_writer_open(path, &tensor, 1, NULL, 0, &writer);
    for (size_t at = 0; status == MICA_OK && at < t->bytes; at += t->type->bytes) {
        t->type->decode((const uint8_t *)t->data + at, values);
        status = mc_weights_writer_add(writer, values, t->type->block * sizeof *values);
    }
    return mc_weights_writer_close(&writer, status);
}

static mica_status write_dense(const reading *r, int i, const mc_gguf_tensor *t) {
    char name[32];
    mc_buffer text = {0};
    snprintf(name, sizeof name, "%d_Dense", 2 + i);
    bool done = mc_buffer_printf(
        &text,
        "{\n  \"in_features\": %" PRId64 ",\n  \"out_features\": %" PRId64 ",\n  \"bias\": false,\n"
        "  \"activation_function\": \"torch.nn.modules.linear.Identity\"\n}\n",
        t->shape[1], t->shape[0]);
    mica_status status = done ? save_text(r, name, "config.json", &text) : no_memory();
    mc_buffer_deinit(&text);
    char *inside = mc_path_join(r->folder, name);
    char *path = inside ? mc_path_join(inside, "model.safetensors") : NULL;
    if (status == MICA_OK) status = path ? write_matrix(t, path) : no_memory();
    mc_free(path);
    mc_free(inside);
    return status;
}

static mica_status write_all_dense(const reading *r) {
    static const char *const names[MC_GGUF_DENSE] = {MC_GGUF_DENSE_2, MC_GGUF_DENSE_3};
    int64_t width = r->spec->hidden;
    for (int i = 0; i < r->dense; i++) {
        const mc_gguf_tensor *t = mc_gguf_find(r->gguf, names[i]);
        if (!t || t->ndim != 2 || t->shape[1] != width)
            return mc_fail(MICA_ESHAPE, "%s: tensor %s is no matrix of %" PRId64 " columns",
                           mc_gguf_path(r->gguf), names[i], width);
        width = t->shape[0];
        MC_TRY(write_dense(r, i, t));
    }
    return MICA_OK;
}

/* ---- a language model that ranks ---- */

/* The id of a token; -1: there is none. */
static int64_t find_token(const mc_gguf *gguf, const char *text) {
    for (mc_gguf_iter it = mc_gguf_begin(gguf, "tokenizer.ggml.tokens"); mc_gguf_next(&it);)
        if (mc_str_is(it.text, text)) return (int64_t)it.index;
    return -1;
}

/* Adds to both what a row of the answers' matrix and one of the embedding have: the square of their
 * difference, and of the latter. */
static void compare_rows(const mc_gguf_tensor *head, int64_t row, const mc_gguf_tensor *embed,
                         int64_t id, double *apart, double *size) {
    float a[MC_GGML_BLOCK], b[MC_GGML_BLOCK];
    int64_t n = embed->shape[1], at_a = row * n, at_b = id * n, last = -1, last_b = -1;
    for (int64_t i = 0; i < n; i++, at_a++, at_b++) {
        int64_t block = at_a / head->type->block, other = at_b / embed->type->block;
        if (block != last)
            head->type->decode((const uint8_t *)head->data + (size_t)block * head->type->bytes, a);
        if (other != last_b)
            embed->type->decode((const uint8_t *)embed->data + (size_t)other * embed->type->bytes,
                                b);
        last = block, last_b = other;
        double x = (double)a[at_a % head->type->block], y = (double)b[at_b % embed->type->block];
        *apart += (x - y) * (x - y);
        *size += y * y;
    }
}

/* A file of Qwen 3 Reranker has of its head two rows, of yes and no. They must be the embedding's,
 * but for what quantising changes: mica reads no others. */
static mica_status check_answers(const reading *r, int64_t yes, int64_t no) {
    const mc_gguf_tensor *head = mc_gguf_find(r->gguf, MC_GGUF_ANSWERS),
                         *embed = mc_gguf_find(r->gguf, MC_GGUF_EMBED);
    double apart = 0, size = 0;
    if (!head || mc_gguf_find(r->gguf, MC_GGUF_HEAD)) return MICA_OK;
    if (head->ndim != 2 || head->shape[0] != 2 || !embed || embed->ndim != 2 ||
        head->shape[1] != embed->shape[1] || yes >= embed->shape[0] || no >= embed->shape[0])
        return mc_fail(MICA_ESHAPE, "%s: tensor " MC_GGUF_ANSWERS " is not [2, hidden]",
                       mc_gguf_path(r->gguf));
    compare_rows(head, 0, embed, yes, &apart, &size);
    compare_rows(head, 1, embed, no, &apart, &size);
    if (apart <= 0.1 * size) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "%s: of a head that is not the embedding it has the rows of two answers alone: "
                   "take the folder that it was made of",
                   mc_gguf_path(r->gguf));
}

/* Whether a file tells the tokens of its answers. */
static bool has_answers(const mc_gguf *gguf, int64_t *yes, int64_t *no) {
    return mc_gguf_int(gguf, ANSWERS_YES, yes) && mc_gguf_int(gguf, ANSWERS_NO, no);
}

static mica_status write_answers(const reading *r) {
    int64_t yes = -1, no = -1;
    bool told = has_answers(r->gguf, &yes, &no);
    if (!told) yes = find_token(r->gguf, "yes"), no = find_token(r->gguf, "no");
    mc_buffer modules = {0}, text = {0};
    if (yes < 0 || no < 0) return MICA_OK;
    MC_TRY(check_answers(r, yes, no));
    bool done = put_module(&modules, 0, "Transformer", false) &&
                put_module(&modules, 1, "LogitScore", true) &&
                mc_buffer_add_text(&modules, "\n]\n") &&
                mc_buffer_printf(&text,
                                 "{\n  \"true_token_id\": %" PRId64
                                 ",\n  \"false_token_id\": %" PRId64 "\n}\n",
                                 yes, no);
    mica_status status = done ? save_text(r, "1_LogitScore", "config.json", &text) : no_memory();
    if (status == MICA_OK) status = save_text(r, "", "modules.json", &modules);
    mc_buffer_deinit(&modules);
    mc_buffer_deinit(&text);
    return status;
}

mica_status mc_gguf_write_sentence(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                   const mc_decoder_spec *spec, const char *folder) {
    reading r = {gguf, arch, spec, folder, .normalises = true};
    mc_gguf_int(gguf, mc_gguf_key(arch, "pooling_type", r.key), &r.pooling);
    int64_t yes, no;
    bool answers = r.pooling == RANK || has_answers(gguf, &yes, &no);
    if (answers && !arch->both_ways) return write_answers(&r);
    if (r.pooling == 0 || r.pooling == RANK) return MICA_OK;
    if (r.pooling < 0 || r.pooling > RANK)
        return mc_fail(MICA_EUNSUPPORTED, "%s: %s is %" PRId64 "; mica knows 0 to 4",
                       mc_gguf_path(gguf), r.key, r.pooling);
    mc_gguf_bool(gguf, NORMALISES, &r.normalises);
    r.dense = mc_gguf_find(gguf, MC_GGUF_DENSE_2)
                  ? 1 + (mc_gguf_find(gguf, MC_GGUF_DENSE_3) != NULL)
              : mc_gguf_find(gguf, MC_GGUF_DENSE_3) ? MC_GGUF_DENSE
                                                    : 0;
    MC_TRY(write_modules(&r));
    MC_TRY(write_pooling(&r));
    MC_TRY(write_all_dense(&r));
    MC_TRY(write_longest(&r));
    return write_settings(&r);
}

/* Labels of a head, by their names or numbers. */
static bool put_labels(const mc_gguf *gguf, const mc_gguf_arch *arch, int64_t n, mc_buffer *out) {
    char key[MC_GGUF_KEY_BYTES];
    mc_gguf_iter it = mc_gguf_begin(gguf, mc_gguf_key(arch, LABELS, key));
    bool named = mc_gguf_has_strs(gguf, key) && (int64_t)mc_gguf_array(gguf, key) == n;
    bool done = mc_buffer_add_text(out, ",\n    \"id2label\": {");
    for (int64_t i = 0; done && i < n; i++) {
        bool text = named && mc_gguf_next(&it) && mc_utf8_valid(it.text.ptr, it.text.len);
        done = mc_buffer_printf(out, "%s\"%" PRId64 "\": ", i ? ", " : "", i) &&
               (text ? mc_json_put_str(out, it.text)
                     : mc_buffer_printf(out, "\"LABEL_%" PRId64 "\"", i));
    }
    return done && mc_buffer_add_byte(out, '}');
}

bool mc_gguf_ranker_config(const mc_gguf *gguf, const mc_gguf_arch *arch, mc_buffer *out) {
    char key[MC_GGUF_KEY_BYTES];
    const mc_gguf_tensor *head = gguf ? mc_gguf_find(gguf, "cls.output.weight") : NULL;
    mc_str scores = MC_STR("");
    int64_t pooling = MEAN;
    if (!arch->ranker || !head) return true;
    mc_gguf_int(gguf, mc_gguf_key(arch, CLASSIFIER_POOLING, key), &pooling);
    mc_gguf_str(gguf, SCORES, &scores);
    bool identity = mc_str_is(scores, "Identity");
    return mc_buffer_printf(out, ",\n    \"classifier_pooling\": \"%s\"",
                            pooling == CLS ? "cls" : "mean") &&
           put_labels(gguf, arch, head->ndim == 2 && head->bytes ? head->shape[0] : 1, out) &&
           mc_buffer_printf(out,
                            ",\n    \"sentence_transformers\": {\"activation_fn\": "
                            "\"torch.nn.modules.%s\"}",
                            identity ? "linear.Identity" : "activation.Sigmoid");
}

/* ---- as metadata ---- */

mica_status mc_gguf_open_sentence(const mc_source *source, const mc_decoder_spec *spec,
                                  mica_device *device, mc_lm **behind) {
    mc_lm *lm = *behind = mc_calloc(1, sizeof *lm);
    if (!lm) return no_memory();
    lm->spec = *spec;
    MC_TRY(mica_scope_open(device, &lm->scope));
    MC_TRY(mc_sentence_load(lm, source->folder));
    if (!lm->sentence || lm->sentence->answers) return MICA_OK;
    return mc_sentence_check(lm->sentence);
}

size_t mc_gguf_count_dense(const mc_lm *behind) {
    return behind && behind->sentence ? behind->sentence->n_dense : 0;
}

typedef struct writing {
    const mc_gguf_arch *arch;
    const mc_lm *behind;
    mc_gguf_pairs *out;
    char key[MC_GGUF_KEY_BYTES];
} writing;

static bool put_int(writing *w, const char *key, int64_t value) {
    return mc_gguf_put_u32(w->out, mc_gguf_key(w->arch, key, w->key), (uint32_t)value);
}

static mica_status cannot(const writing *w, const char *what) {
    return mc_fail(MICA_EUNSUPPORTED,
                   "the embedder has %s, which GGUF files of the architecture %s cannot tell", what,
                   w->arch->name);
}

static mica_status put_pooling(writing *w) {
    const mc_sentence *s = w->behind->sentence;
    for (int i = 0; i < POOLINGS; i++)
        if (poolings[i].pooling == s->pooling)
            return put_int(w, "pooling_type", poolings[i].number) ? MICA_OK : no_memory();
    return cannot(w, "another pooling than cls, the mean and the last token's");
}

static mica_status put_dense(writing *w) {
    const mc_sentence *s = w->behind->sentence;
    if (!s->n_dense) return MICA_OK;
    if (!w->arch->gemma || s->n_dense != MC_GGUF_DENSE ||
        s->dense[1].linear.out != w->behind->spec.hidden)
        return cannot(w, "dense modules, but for EmbeddingGemma's two");
    for (size_t i = 0; i < s->n_dense; i++)
        if (s->dense[i].activation != MC_SENTENCE_IDENTITY || s->dense[i].normalise ||
            mica_valid(s->dense[i].linear.bias) || mica_valid(s->dense[i].linear.scales))
            return cannot(w, "a dense module with a bias, an activation, a norm or quantised");
    const mc_linear *first = &s->dense[0].linear, *second = &s->dense[1].linear;
    return put_int(w, "dense_2_feat_in", first->in) && put_int(w, "dense_2_feat_out", first->out) &&
                   put_int(w, "dense_3_feat_in", second->in) &&
                   put_int(w, "dense_3_feat_out", second->out)
               ? MICA_OK
               : no_memory();
}

static bool put_settings(writing *w) {
    const mc_config_scope root = mc_config_root(w->behind->sentence->settings);
    mc_json prompts = mc_json_find(root.object, "prompts");
    mc_str name, text;
    uint64_t n = 0;
    for (mc_json_iter it = mc_json_begin(prompts); mc_json_next(&it);)
        n += mc_json_get_str(it.value, &text);
    if (!n) return true;
    bool done = mc_gguf_begin_strs(w->out, PROMPT_NAMES, n);
    for (mc_json_iter it = mc_json_begin(prompts); done && mc_json_next(&it);)
        if (mc_json_get_str(it.value, &text)) done = mc_gguf_add_str(w->out, it.key);
    done = done && mc_gguf_begin_strs(w->out, PROMPTS, n);
    for (mc_json_iter it = mc_json_begin(prompts); done && mc_json_next(&it);)
        if (mc_json_get_str(it.value, &text)) done = mc_gguf_add_str(w->out, text);
    bool named = mc_json_get_str(mc_json_find(root.object, "default_prompt_name"), &name);
    return done && (!named || mc_gguf_put_str(w->out, DEFAULT_PROMPT, name));
}

static mica_status put_sentence(writing *w) {
    const mc_sentence *s = w->behind->sentence;
    MC_TRY(put_pooling(w));
    MC_TRY(put_dense(w));
    bool done = (!s->max_tokens || mc_gguf_put_u32(w->out, LONGEST, (uint32_t)s->max_tokens)) &&
                (s->normalise || mc_gguf_put_bool(w->out, NORMALISES, false)) &&
                (!s->skip_prompt || mc_gguf_put_bool(w->out, POOLS_PROMPT, false)) &&
                put_settings(w);
    return done ? MICA_OK : no_memory();
}

/* The labels of several, which a file counts. */
static bool put_label_names(writing *w, mc_json config, int64_t n) {
    char number[32];
    mc_str text;
    if (n < 2) return true;
    bool done = mc_gguf_begin_strs(w->out, mc_gguf_key(w->arch, LABELS, w->key), (uint64_t)n);
    for (int64_t i = 0; done && i < n; i++) {
        snprintf(number, sizeof number, "%" PRId64, i);
        if (!mc_json_get_str(mc_json_find(mc_json_find(config, "id2label"), number), &text))
            text = mc_str_of(number);
        done = mc_gguf_add_str(w->out, text);
    }
    return done;
}

static mica_status put_ranker(writing *w, const mc_source *source, const mc_part *out) {
    const mc_config_scope root = {.file = "config.json", .object = source->config};
    mc_ranker ranker = {0};
    mc_str pooling = MC_STR("cls");
    if (!w->arch->ranker) return cannot(w, "the head of a cross-encoder");
    MC_TRY(mc_ranker_scores(&root, source->folder, &ranker));
    MC_TRY(mc_config_str(&root, "classifier_pooling", MC_OPTIONAL, &pooling));
    bool mean = w->arch->joined && mc_str_is(pooling, "mean");
    bool done = put_int(w, "pooling_type", RANK) &&
                put_int(w, CLASSIFIER_POOLING, mean ? MEAN : CLS) &&
                put_label_names(w, source->config, out->shape[0]) &&
                (ranker.sigmoid || mc_gguf_put_str(w->out, SCORES, MC_STR("Identity")));
    return done ? MICA_OK : no_memory();
}

mica_status mc_gguf_describe_sentence(const mc_source *source, const mc_gguf_arch *arch,
                                      const mc_lm *behind, mc_gguf_pairs *out) {
    writing w = {arch, behind, out, ""};
    const mc_part *head = mc_source_ranker(source);
    const mc_sentence *s = behind->sentence;
    if (head) return put_ranker(&w, source, head);
    if (!s) return MICA_OK;
    if (!s->answers) return put_sentence(&w);
    bool done = mc_gguf_put_u32(out, ANSWERS_YES, (uint32_t)s->yes) &&
                mc_gguf_put_u32(out, ANSWERS_NO, (uint32_t)s->no);
    return done ? MICA_OK : no_memory();
}

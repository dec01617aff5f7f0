#include "serve/jobs/fim.h"

#include "base/alloc.h"

#include <string.h>

enum { MAX_ENDS = 6, MAX_STOPS = MAX_ENDS + 5 };

/* How a family of models was trained to fill in. order: P S M are the marks of what stands before
 * the gap, behind it, and of the gap; p s are the texts. */
struct mc_fim_family {
    const char *prefix, *suffix, *middle; /* middle NULL: there is no such mark */
    const char *order;
    const char *repository, *file; /* of other files before; NULL: none */
    const char *ends[MAX_ENDS]; /* other tokens that end the gap, where the vocabulary has them */
};

static const struct mc_fim_family families[] = {
    /* Qwen2.5-Coder, CodeGemma and others with these names */
    {"<|fim_prefix|>",
     "<|fim_suffix|>",
     "<|fim_middle|>",
     "PpSsM",
     "<|repo_name|>",
     "<|file_sep|>",
     {"<|fim_pad|>", "<|endoftext|>", "<|im_end|>", "<|file_separator|>"}},
    /* StarCoder, Granite, StableCode */
    {"<fim_prefix>",
     "<fim_suffix>",
     "<fim_middle>",
     "PpSsM",
     "<repo_name>",
     "<file_sep>",
     {"<fim_pad>", "<|endoftext|>", "<filename>"}},
    {"<fim-prefix>",
     "<fim-suffix>",
     "<fim-middle>",
     "PpSsM",
     NULL,
     NULL,
     {"<fim-pad>", "<|endoftext|>"}}, /* SantaCoder */
    {"<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "hole\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     "PpSsM",
     NULL,
     NULL,
     {"<|EOT|>"}}, /* DeepSeek */
    {"\xe2\x96\x81<PRE>",
     "\xe2\x96\x81<SUF>",
     "\xe2\x96\x81<MID>",
     "PpSsM",
     NULL,
     NULL,
     {"\xe2\x96\x81<EOT>"}},                                          /* CodeLlama */
    {"[PREFIX]", "[SUFFIX]", NULL, "SsPp", NULL, NULL, {"[MIDDLE]"}}, /* Codestral */
    {"<|code_prefix|>",
     "<|code_suffix|>",
     "<|code_middle|>",
     "PpSsM",
     NULL,
     NULL,
     {"<|endoftext|>", "<|user|>"}}, /* GLM-4, CodeGeeX4 */
    {"<[fim-prefix]>",
     "<[fim-suffix]>",
     "<[fim-middle]>",
     "SsPpM",
     NULL,
     NULL,
     {"<[end\xe2\x96\x81of\xe2\x96\x81sentence]>"}}, /* Seed-Coder */
};

static int32_t find_mark(const mica_tokenizer *tok, const char *name) {
    return name ? mica_tokenizer_find(tok, name, strlen(name)) : -1;
}

bool mc_fim_find(const mica_tokenizer *tok, const char *field, mc_fim *fim, mc_failure *failure) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct mc_fim_family *family = &families[i];
        *fim = (mc_fim){.family = family,
                        .prefix = find_mark(tok, family->prefix),
                        .suffix = find_mark(tok, family->suffix),
                        .middle = find_mark(tok, family->middle),
                        .repository = find_mark(tok, family->repository),
                        .file = find_mark(tok, family->file)};
        if (fim->prefix >= 0 && fim->suffix >= 0 && (!family->middle || fim->middle >= 0))
            return true;
    }
    *fim = (mc_fim){NULL, -1, -1, -1, -1, -1};
    return mc_failure_set(failure, 400, "unsupported_value", field,
                          "%s: the model's vocabulary has no marks for filling in, such as "
                          "<|fim_prefix|>: ask a model that was trained for it, such as "
                          "Qwen2.5-Coder, CodeGemma or StarCoder2",
                          field);
}

/* ---- prompts ---- */

static mica_status add_text(const mica_tokenizer *tok, mc_buffer *ids, mc_str text, bool special) {
    int32_t *some;
    size_t n;
    MC_TRY(mica_tokenizer_encode(tok, text.len ? text.ptr : "", text.len, special, &some, &n));
    bool done = mc_buffer_add(ids, some, n * sizeof *some);
    mica_free(some);
    return done ? MICA_OK : mc_fail_nomem("a prompt");
}

static mica_status add_id(mc_buffer *ids, int32_t id) {
    if (id < 0 || mc_buffer_add(ids, &id, sizeof id)) return MICA_OK;
    return mc_fail_nomem("a prompt");
}

/* Other files: with their names behind marks, where the vocabulary has these. */
static mica_status add_files(const mica_tokenizer *tok, const mc_fim *fim, mc_buffer *ids,
                             const mc_fim_file *files, size_t count) {
    if (!count) return MICA_OK;
    if (fim->file >= 0 && fim->repository >= 0) {
        MC_TRY(add_id(ids, fim->repository));
        MC_TRY(add_text(tok, ids, MC_STR("repository\n"), false));
    }
    for (size_t i = 0; i < count; i++) {
        if (fim->file >= 0) {
            MC_TRY(add_id(ids, fim->file));
            MC_TRY(add_text(tok, ids, files[i].name, false));
            MC_TRY(add_text(tok, ids, MC_STR("\n"), false));
        }
        MC_TRY(add_text(tok, ids, files[i].text, false));
    }
    return fim->file >= 0 ? add_id(ids, fim->file) : MICA_OK;
}

static mica_status add_gap(const mica_tokenizer *tok, const mc_fim *fim, mc_buffer *ids,
                           mc_str before, mc_str behind) {
    for (const char *c = fim->family->order; *c; c++)
        switch (*c) {
        case 'P':
            MC_TRY(add_id(ids, fim->prefix));
            break;
        case 'S':
            MC_TRY(add_id(ids, fim->suffix));
            break;
        case 'M':
            MC_TRY(add_id(ids, fim->middle));
            break;
        default:
            MC_TRY(add_text(tok, ids, *c == 'p' ? before : behind, false));
            break;
        }
    return MICA_OK;
}

bool mc_fim_encode(const mica_tokenizer *tok, const mc_fim *fim, mc_str before, mc_str behind,
                   mc_str begun, const mc_fim_file *files, size_t count, const char *field,
                   mc_completion_prompt *prompt, mc_failure *failure) {
    mc_buffer ids = {0};
    mica_status status = add_text(tok, &ids, (mc_str){NULL, 0}, true); /* <bos>, if there is one */
    if (status == MICA_OK) status = add_files(tok, fim, &ids, files, count);
    if (status == MICA_OK) status = add_gap(tok, fim, &ids, before, behind);
    if (status == MICA_OK) status = add_text(tok, &ids, begun, false);
    if (status != MICA_OK) {
        mc_buffer_deinit(&ids);
        return mc_failure_of(failure, status, field);
    }
    prompt->n = MC_BUFFER_COUNT(&ids, int32_t);
    prompt->ids = MC_BUFFER_AT(&ids, int32_t); /* of mc_alloc, as mica_free wants it */
    return true;
}

bool mc_fim_stops(const mica_tokenizer *tok, const mc_fim *fim, mc_arena *arena,
                  mica_generate_options *options) {
    const int32_t marks[] = {fim->prefix, fim->suffix, fim->middle, fim->repository, fim->file};
    size_t n = options->stop_count;
    int32_t *ids = mc_arena_alloc(arena, (n + MAX_STOPS) * sizeof *ids);
    if (!ids) return false;
    if (n) memcpy(ids, options->stop_ids, n * sizeof *ids);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (marks[i] >= 0) ids[n++] = marks[i];
    for (size_t i = 0; i < MAX_ENDS; i++) {
        int32_t id = find_mark(tok, fim->family->ends[i]);
        if (id >= 0) ids[n++] = id;
    }
    options->stop_ids = ids;
    options->stop_count = n;
    return true;
}

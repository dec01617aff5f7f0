#include "text/tokenizer/normalize.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "text/space.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/normal_form.h"
#include "text/tokenizer/steps.h"

enum { MAX_STEPS = 256 };

typedef struct normal_step {
    const struct normal_kind *kind;
    mc_pattern pattern;
    mc_str content;
    bool left, right;          /* Strip */
    const mc_classes *classes; /* NFC */
    mc_charsmap map;           /* Precompiled */
} normal_step;

typedef struct normal_kind {
    const char *type;
    size_t growth; /* maximum bytes of output per byte; 0: the step charges mc_work itself */
    mica_status (*parse)(const mc_steps *steps, mc_json v, normal_step *step);
    /* Adds the rewritten text. text is not empty. */
    mica_status (*run)(const normal_step *step, mc_str text, mc_normalizing *s, mc_buffer *out);
} normal_kind;

static mica_status done(bool ok) {
    return ok ? MICA_OK : mc_fail_nomem("normalised text");
}

static mica_status replace_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    MC_TRY(mc_steps_pattern(steps, v, &step->pattern));
    return mc_steps_str(steps, v, "content", &step->content);
}

static mica_status replace_run(const normal_step *step, mc_str text, mc_normalizing *s,
                               mc_buffer *out) {
    return mc_pattern_replace(&step->pattern, s->work, text, step->content, out);
}

static mica_status prepend_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    return mc_steps_str(steps, v, "prepend", &step->content);
}

static mica_status prepend_run(const normal_step *step, mc_str text, mc_normalizing *s,
                               mc_buffer *out) {
    MC_TRY(mc_work_add(s->work, step->content.len));
    return done(mc_buffer_add(out, step->content.ptr, step->content.len) &&
                mc_buffer_add(out, text.ptr, text.len));
}

static mica_status strip_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    step->left = step->right = true;
    MC_TRY(mc_steps_bool(steps, v, "strip_left", &step->left));
    return mc_steps_bool(steps, v, "strip_right", &step->right);
}

static mica_status strip_run(const normal_step *step, mc_str text, mc_normalizing *s,
                             mc_buffer *out) {
    (void)s;
    size_t start = step->left ? mc_space_at_start(text.ptr, text.len) : 0;
    text.ptr += start;
    text.len -= start;
    if (step->right) text.len -= mc_space_at_end(text.ptr, text.len);
    return done(mc_buffer_add(out, text.ptr, text.len));
}

static mica_status plain_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    (void)steps;
    (void)v;
    (void)step;
    return MICA_OK;
}

static mica_status strip_accents_run(const normal_step *step, mc_str text, mc_normalizing *s,
                                     mc_buffer *out) {
    (void)step;
    (void)s;
    if (!mc_buffer_reserve(out, text.len)) return done(false);
    for (size_t at = 0, n; at < text.len; at += n) {
        uint32_t c;
        n = mc_next_char(text.ptr + at, &c);
        if (c >= 0x80 && mc_is_mark(c)) continue;
        mc_buffer_add(out, text.ptr + at, n);
    }
    return MICA_OK;
}

/* Lowers each character alone, without context. One of them has a lower case of two characters. */
static mica_status lowercase_run(const normal_step *step, mc_str text, mc_normalizing *s,
                                 mc_buffer *out) {
    (void)step;
    (void)s;
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        char spelled[4];
        at += mc_next_char(text.ptr + at, &c);
        bool dotted = c == 0x130;
        if (!mc_buffer_add(out, spelled, mc_utf8_encode(dotted ? 'i' : mc_lower(c), spelled)) ||
            (dotted && !mc_buffer_add_text(out, "\xCC\x87"))) {
            return done(false);
        }
    }
    return MICA_OK;
}

static mica_status byte_level_run(const normal_step *step, mc_str text, mc_normalizing *s,
                                  mc_buffer *out) {
    (void)step;
    (void)s;
    return done(mc_byte_level_spell(text, out));
}

static mica_status nfc_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    (void)v;
    return mc_store_classes(steps->store, &step->classes);
}

static mica_status nfc_run(const normal_step *step, mc_str text, mc_normalizing *s,
                           mc_buffer *out) {
    return done(mc_normal_form_add(MC_NFC, step->classes, text, &s->characters, out));
}

static mica_status nfd_run(const normal_step *step, mc_str text, mc_normalizing *s,
                           mc_buffer *out) {
    return done(mc_normal_form_add(MC_NFD, step->classes, text, &s->characters, out));
}

static mica_status nfkc_run(const normal_step *step, mc_str text, mc_normalizing *s,
                            mc_buffer *out) {
    return done(mc_normal_form_add(MC_NFKC, step->classes, text, &s->characters, out));
}

static mica_status nfkd_run(const normal_step *step, mc_str text, mc_normalizing *s,
                            mc_buffer *out) {
    return done(mc_normal_form_add(MC_NFKD, step->classes, text, &s->characters, out));
}

static mica_status precompiled_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    mc_str text = {"", 0};
    mc_json map = mc_json_find(v, "precompiled_charsmap");
    if (mc_json_exists(map) && !mc_json_get_str(map, &text))
        return mc_fail(MICA_EFORMAT, "%s: 'precompiled_charsmap' is not a string", steps->field);
    mc_buffer bytes = {0};
    mica_status status = mc_base64_decode(text, &bytes);
    if (status == MICA_OK)
        status = mc_store_text(steps->store, (mc_str){bytes.data, bytes.len}, &step->content);
    if (status == MICA_OK) status = mc_charsmap_read(step->content, &step->map);
    mc_buffer_deinit(&bytes);
    return status == MICA_OK ? MICA_OK
                             : mc_fail_context(status, "%s: precompiled_charsmap", steps->field);
}

static mica_status precompiled_run(const normal_step *step, mc_str text, mc_normalizing *s,
                                   mc_buffer *out) {
    return mc_charsmap_apply(&step->map, text, s->work, out);
}

/* The growth of the normal forms in UTF-8 is that of UAX #15. */
static const normal_kind kinds[] = {
    {"Replace", 0, replace_parse, replace_run},
    {"Prepend", 0, prepend_parse, prepend_run},
    {"Strip", 1, strip_parse, strip_run},
    {"StripAccents", 1, plain_parse, strip_accents_run},
    {"Lowercase", 2, plain_parse, lowercase_run},
    {"ByteLevel", 2, plain_parse, byte_level_run},
    {"NFC", 3, nfc_parse, nfc_run},
    {"NFD", 3, plain_parse, nfd_run},
    {"NFKC", 11, plain_parse, nfkc_run},
    {"NFKD", 11, plain_parse, nfkd_run},
    {"Precompiled", 0, precompiled_parse, precompiled_run},
};

/* ---- the steps that BertNormalizer consists of ---- */

/* Leaves out controls, but for tabs and ends of lines, and makes a space of other white space. */
static mica_status clean_run(const normal_step *step, mc_str text, mc_normalizing *s,
                             mc_buffer *out) {
    (void)step;
    (void)s;
    for (size_t at = 0, n; at < text.len; at += n) {
        uint32_t c;
        n = mc_next_char(text.ptr + at, &c);
        bool kept = c == '\t' || c == '\n' || c == '\r', space = mc_is_space(c);
        if (c == 0xFFFD || (!kept && mc_is_control(c))) continue;
        mc_buffer_add(out, space ? " " : text.ptr + at, space ? 1 : n);
    }
    return MICA_OK;
}

/* The blocks that BERT's own tokenizer names, as `tokenizers` has them: with 2B920 for 2B820. */
static bool is_han(uint32_t c) {
    static const uint32_t blocks[][2] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (c >= blocks[i][0] && c <= blocks[i][1]) return true;
    }
    return false;
}

static mica_status space_han_run(const normal_step *step, mc_str text, mc_normalizing *s,
                                 mc_buffer *out) {
    (void)step;
    (void)s;
    bool ok = true;
    for (size_t at = 0, n; ok && at < text.len; at += n) {
        uint32_t c;
        n = mc_next_char(text.ptr + at, &c);
        bool han = is_han(c);
        ok = (!han || mc_buffer_add_byte(out, ' ')) && mc_buffer_add(out, text.ptr + at, n) &&
             (!han || mc_buffer_add_byte(out, ' '));
    }
    return done(ok);
}

static mica_status drop_accents_run(const normal_step *step, mc_str text, mc_normalizing *s,
                                    mc_buffer *out) {
    (void)step;
    (void)s;
    for (size_t at = 0, n; at < text.len; at += n) {
        uint32_t c;
        n = mc_next_char(text.ptr + at, &c);
        if (c < 0x80 || !mc_is_nonspacing(c)) mc_buffer_add(out, text.ptr + at, n);
    }
    return MICA_OK;
}

static const normal_kind clean_kind = {"BertNormalizer", 1, NULL, clean_run};
static const normal_kind space_han_kind = {"BertNormalizer", 2, NULL, space_han_run};
static const normal_kind decompose_kind = {"BertNormalizer", 3, NULL, nfd_run};
static const normal_kind drop_accents_kind = {"BertNormalizer", 1, NULL, drop_accents_run};
static const normal_kind lowercase_kind = {"BertNormalizer", 2, NULL, lowercase_run};

static mica_status add_step(const mc_steps *steps, const normal_step *step) {
    mc_normalizer *n = steps->into;
    if (MC_BUFFER_COUNT(&n->steps, normal_step) == MAX_STEPS)
        return mc_steps_too_many(steps, MAX_STEPS);
    return mc_buffer_add(&n->steps, step, sizeof *step) ? MICA_OK : mc_fail_nomem("normalizer");
}

static mica_status add_kind(const mc_steps *steps, const normal_kind *kind) {
    return add_step(steps, &(normal_step){.kind = kind});
}

/* Without "strip_accents" accents are stripped where letters are lowered. */
static mica_status add_bert(const mc_steps *steps, mc_json v) {
    bool clean = true, han = true, lower = true;
    MC_TRY(mc_steps_bool(steps, v, "clean_text", &clean));
    MC_TRY(mc_steps_bool(steps, v, "handle_chinese_chars", &han));
    MC_TRY(mc_steps_bool(steps, v, "lowercase", &lower));
    bool strip = lower;
    MC_TRY(mc_steps_bool(steps, v, "strip_accents", &strip));
    if (clean) MC_TRY(add_kind(steps, &clean_kind));
    if (han) MC_TRY(add_kind(steps, &space_han_kind));
    if (strip) MC_TRY(add_kind(steps, &decompose_kind));
    if (strip) MC_TRY(add_kind(steps, &drop_accents_kind));
    return lower ? add_kind(steps, &lowercase_kind) : MICA_OK;
}

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    if (mc_str_is(type, "BertNormalizer")) return add_bert(steps, v);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        normal_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        return add_step(steps, &step);
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_normalizer_parse(mc_normalizer *n, mc_json v, mc_store *store) {
    return mc_steps_parse(&(mc_steps){"normalizer", "normalizers", store, n, add}, v);
}

mica_status mc_normalizer_lower(mc_normalizer *n) {
    const normal_step lower = {.kind = &lowercase_kind};
    normal_step *steps = MC_BUFFER_AT(&n->steps, normal_step);
    size_t count = MC_BUFFER_COUNT(&n->steps, normal_step);
    for (size_t i = 0; i < count; i++)
        if (steps[i].kind->run == lowercase_run) return MICA_OK;
    if (!mc_buffer_add(&n->steps, &lower, sizeof lower)) return mc_fail_nomem("normalizer");
    steps = MC_BUFFER_AT(&n->steps, normal_step);
    memmove(steps + 1, steps, count * sizeof *steps);
    steps[0] = lower;
    return MICA_OK;
}

void mc_normalizer_deinit(mc_normalizer *n) {
    mc_buffer_deinit(&n->steps);
}

static mica_status run_sequence(const normal_step *step, mc_str text, mc_normalizing *s,
                                mc_buffer *out) {
    size_t growth = step->kind->growth, more = growth > 1 ? (growth - 1) * text.len : 0;
    if (text.len == 0) return MICA_OK;
    MC_TRY(mc_work_add(s->work, more));
    MC_TRY(done(mc_buffer_reserve(out, text.len)));
    MC_TRY(step->kind->run(step, text, s, out));
    size_t added = out->len > text.len ? out->len - text.len : 0;
    if (more > added) s->work->left += more - added;
    return MICA_OK;
}

mica_status mc_normalize(const mc_normalizer *n, mc_str text, mc_normalizing *s, mc_str *out) {
    const normal_step *steps = MC_BUFFER_AT(&n->steps, normal_step);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&n->steps, normal_step); i++) {
        mc_buffer *to = &s->text[i % 2];
        mc_buffer_clear(to);
        MC_TRY(run_sequence(&steps[i], text, s, to));
        text = (mc_str){to->len ? to->data : "", to->len};
    }
    *out = text;
    return MICA_OK;
}

void mc_normalizing_deinit(mc_normalizing *s) {
    mc_buffer_deinit(&s->text[0]);
    mc_buffer_deinit(&s->text[1]);
    mc_buffer_deinit(&s->characters);
}

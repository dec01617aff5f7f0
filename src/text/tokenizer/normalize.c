#include "text/tokenizer/normalize.h"

#include "base/utf8.h"
#include "text/space.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/normal_form.h"
#include "text/tokenizer/steps.h"

enum { MAX_STEPS = 256 };

typedef struct normal_step {
    const struct normal_kind *kind;
    mc_pattern pattern;
    mc_str content;
    bool left, right;          /* Strip */
    const mc_classes *classes; /* NFC */
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
};

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    mc_normalizer *n = steps->into;
    if (MC_BUFFER_COUNT(&n->steps, normal_step) == MAX_STEPS)
        return mc_steps_too_many(steps, MAX_STEPS);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        normal_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        return mc_buffer_add(&n->steps, &step, sizeof step) ? MICA_OK : mc_fail_nomem("normalizer");
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_normalizer_parse(mc_normalizer *n, mc_json v, mc_store *store) {
    return mc_steps_parse(&(mc_steps){"normalizer", "normalizers", store, n, add}, v);
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

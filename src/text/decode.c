#include "text/decode.h"

#include "base/utf8.h"
#include "text/find.h"
#include "text/steps.h"

typedef struct token_step {
    const struct token_kind *kind;
    mc_str pattern;
    mc_str content;
    size_t start, stop; /* Strip: characters at either end */
    mc_prepend prepend; /* Metaspace */
} token_step;

typedef struct token_kind {
    const char *type;
    mica_status (*parse)(const mc_steps *steps, mc_json v, token_step *step);
    /* Adds what becomes of a token's text; false: no memory. NULL: not a step of one token. */
    bool (*run)(const token_step *step, mc_str token, bool first, mc_buffer *out);
    /* Takes the step as a stage of its own, or after one. NULL: not possible. */
    mica_status (*stage)(const mc_steps *steps, const token_step *step, mc_decoder *d);
} token_kind;

static mica_status replace_parse(const mc_steps *steps, mc_json v, token_step *step) {
    MC_TRY(mc_steps_pattern(steps, v, &step->pattern));
    return mc_steps_str(steps, v, "content", &step->content);
}

static bool replace_run(const token_step *step, mc_str token, bool first, mc_buffer *out) {
    (void)first;
    return mc_replace(token, step->pattern, step->content, out);
}

static mica_status strip_parse(const mc_steps *steps, mc_json v, token_step *step) {
    MC_TRY(mc_steps_str(steps, v, "content", &step->content));
    MC_TRY(mc_steps_size(steps, v, "start", &step->start));
    MC_TRY(mc_steps_size(steps, v, "stop", &step->stop));
    if (step->content.len > 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: 'content' of a Strip is empty", steps->field);
}

static bool strip_run(const token_step *step, mc_str token, bool first, mc_buffer *out) {
    (void)first;
    for (size_t i = 0; i < step->start && mc_str_starts(token, step->content); i++) {
        token.ptr += step->content.len;
        token.len -= step->content.len;
    }
    for (size_t i = 0; i < step->stop && mc_str_ends(token, step->content); i++) {
        token.len -= step->content.len;
    }
    return mc_buffer_add(out, token.ptr, token.len);
}

static mica_status wrong_place(const mc_steps *steps, const char *type) {
    return mc_fail(MICA_EUNSUPPORTED, "%s: %s at this place is not supported", steps->field, type);
}

static mica_status strip_stage(const mc_steps *steps, const token_step *step, mc_decoder *d) {
    if (!d->fused || d->strip_count > 0 || step->stop > 0) return wrong_place(steps, "Strip");
    d->strip = step->content;
    d->strip_count = step->start;
    return MICA_OK;
}

static mica_status metaspace_parse(const mc_steps *steps, mc_json v, token_step *step) {
    return mc_steps_metaspace(steps, v, &step->pattern, &step->prepend);
}

/* In the first token the mark was put there by the pre-tokenizer, and goes. */
static bool metaspace_run(const token_step *step, mc_str token, bool first, mc_buffer *out) {
    bool drop = first && step->prepend != MC_PREPEND_NEVER;
    return mc_replace(token, step->pattern, drop ? (mc_str){"", 0} : MC_STR(" "), out);
}

static mica_status nothing_parse(const mc_steps *steps, mc_json v, token_step *step) {
    (void)steps;
    (void)v;
    (void)step;
    return MICA_OK;
}

static mica_status byte_fallback_stage(const mc_steps *steps, const token_step *step,
                                       mc_decoder *d) {
    (void)step;
    if (d->fused) return wrong_place(steps, "ByteFallback");
    d->byte_fallback = true;
    return MICA_OK;
}

static mica_status fuse_stage(const mc_steps *steps, const token_step *step, mc_decoder *d) {
    (void)steps;
    (void)step;
    d->fused = true;
    return MICA_OK;
}

static const token_kind kinds[] = {
    {"Replace", replace_parse, replace_run, NULL},
    {"Strip", strip_parse, strip_run, strip_stage},
    {"Metaspace", metaspace_parse, metaspace_run, NULL},
    {"ByteFallback", nothing_parse, NULL, byte_fallback_stage},
    {"Fuse", nothing_parse, NULL, fuse_stage},
};

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    mc_decoder *d = steps->into;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        token_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        if (kinds[i].run && !d->byte_fallback && !d->fused) {
            return mc_buffer_add(&d->steps, &step, sizeof step) ? MICA_OK
                                                                : mc_fail_nomem("decoder");
        }
        if (kinds[i].stage) return kinds[i].stage(steps, &step, d);
        return wrong_place(steps, kinds[i].type);
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_decoder_parse(mc_decoder *d, mc_json v, mc_arena *arena) {
    d->joins_with_spaces = !mc_json_exists(v);
    return mc_steps_parse(&(mc_steps){"decoder", "decoders", arena, d, add}, v);
}

void mc_decoder_deinit(mc_decoder *d) {
    mc_buffer_deinit(&d->steps);
}

/* Adds to the whole text, less what is stripped from its beginning. */
static bool add_text(const mc_decoder *d, mc_decoding *s, mc_str text) {
    while (!s->strip_done && text.len > 0) {
        if (s->stripped == d->strip_count || !mc_str_starts(text, d->strip)) {
            s->strip_done = true;
        } else {
            s->stripped++;
            text.ptr += d->strip.len;
            text.len -= d->strip.len;
        }
    }
    return mc_buffer_add(&s->text, text.ptr, text.len);
}

/* The byte of "<0xAB>" (either case), -1 for other tokens. */
static int byte_of(mc_str token) {
    if (token.len != 6 || !mc_str_starts(token, MC_STR("<0x")) || token.ptr[5] != '>') return -1;
    int byte = 0;
    for (int i = 3; i < 5; i++) {
        char c = token.ptr[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0) return -1;
        byte = byte * 16 + digit;
    }
    return byte;
}

/* Looks at the bytes that were added since the last time. */
static void check_bytes(mc_decoding *s) {
    while (!s->bytes_bad && s->bytes_valid < s->bytes.len) {
        const char *at = s->bytes.data + s->bytes_valid;
        size_t n = s->bytes.len - s->bytes_valid;
        uint32_t codepoint;
        size_t len = mc_utf8_decode(at, n, &codepoint);
        if (len == 0) {
            s->bytes_bad = mc_utf8_unfinished(at, n) != n;
            return;
        }
        s->bytes_valid += len;
    }
}

static void clear_bytes(mc_decoding *s) {
    mc_buffer_clear(&s->bytes);
    s->bytes_valid = 0;
    s->bytes_bad = false;
}

bool mc_decode_settle(const mc_decoder *d, mc_decoding *s, bool *no_memory) {
    check_bytes(s);
    if (s->bytes_bad || s->bytes_valid < s->bytes.len) return false;
    *no_memory = !add_text(d, s, (mc_str){s->bytes.data, s->bytes.len});
    if (!*no_memory) clear_bytes(s);
    return true;
}

bool mc_decode_end(const mc_decoder *d, mc_decoding *s) {
    bool no_memory = false;
    if (mc_decode_settle(d, s, &no_memory)) return !no_memory;
    for (size_t i = 0; i < s->bytes.len; i++) {
        if (!add_text(d, s, MC_STR("\xEF\xBF\xBD"))) return false;
    }
    clear_bytes(s);
    return true;
}

bool mc_decode_token(const mc_decoder *d, mc_decoding *s, mc_str token) {
    const token_step *steps = MC_BUFFER_AT(&d->steps, token_step);
    bool first = !s->started;
    s->started = true;
    if (d->joins_with_spaces && !first && !add_text(d, s, MC_STR(" "))) return false;
    for (size_t i = 0; i < MC_BUFFER_COUNT(&d->steps, token_step); i++) {
        mc_buffer *to = &s->scratch[i % 2];
        mc_buffer_clear(to);
        if (!steps[i].kind->run(&steps[i], token, first, to)) return false;
        token = (mc_str){to->len ? to->data : "", to->len};
    }
    int byte = d->byte_fallback ? byte_of(token) : -1;
    if (byte >= 0) return mc_buffer_add_byte(&s->bytes, (char)byte);
    return mc_decode_end(d, s) && add_text(d, s, token);
}

void mc_decoding_reset(mc_decoding *s) {
    mc_buffer_clear(&s->text);
    clear_bytes(s);
    s->started = s->strip_done = false;
    s->stripped = 0;
}

void mc_decoding_deinit(mc_decoding *s) {
    mc_buffer_deinit(&s->text);
    mc_buffer_deinit(&s->bytes);
    mc_buffer_deinit(&s->scratch[0]);
    mc_buffer_deinit(&s->scratch[1]);
}

#include "text/tokenizer/decode.h"

#include "base/utf8.h"
#include "text/find.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/steps.h"

#include <string.h>

enum { MAX_STEPS = 32, MAX_BYTES = 1 << 28 /* of all tokens */ };

typedef struct token_step {
    const struct token_kind *kind;
    mc_pattern pattern;
    mc_str content;
    size_t start, stop; /* Strip: number of characters at either end */
    mc_prepend prepend; /* Metaspace */
    bool cleanup;       /* WordPiece */
} token_step;

typedef struct token_kind {
    const char *type;
    mica_status (*parse)(const mc_steps *steps, mc_json v, token_step *step);
    /* Rewrites a token's text. NULL: the step is not about single tokens. */
    mica_status (*run)(const token_step *step, mc_str token, bool first, mc_work *work,
                       mc_buffer *out);
    /* Adds the step as a stage of its own, or after one. NULL: not possible. */
    mica_status (*stage)(const mc_steps *steps, const token_step *step, mc_decoder *d);
} token_kind;

static mica_status replace_parse(const mc_steps *steps, mc_json v, token_step *step) {
    MC_TRY(mc_steps_pattern(steps, v, &step->pattern));
    return mc_steps_str(steps, v, "content", &step->content);
}

static mica_status replace_run(const token_step *step, mc_str token, bool first, mc_work *work,
                               mc_buffer *out) {
    (void)first;
    return mc_pattern_replace(&step->pattern, work, token, step->content, out);
}

static mica_status strip_parse(const mc_steps *steps, mc_json v, token_step *step) {
    MC_TRY(mc_steps_str(steps, v, "content", &step->content));
    MC_TRY(mc_steps_size(steps, v, "start", &step->start));
    MC_TRY(mc_steps_size(steps, v, "stop", &step->stop));
    if (step->content.len > 0) return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: 'content' of a Strip is empty", steps->field);
}

static mica_status strip_run(const token_step *step, mc_str token, bool first, mc_work *work,
                             mc_buffer *out) {
    (void)first;
    (void)work;
    for (size_t i = 0; i < step->start && mc_str_starts(token, step->content); i++) {
        token.ptr += step->content.len;
        token.len -= step->content.len;
    }
    for (size_t i = 0; i < step->stop && mc_str_ends(token, step->content); i++) {
        token.len -= step->content.len;
    }
    return mc_buffer_add(out, token.ptr, token.len) ? MICA_OK : mc_fail_nomem("text");
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
    return mc_steps_metaspace(steps, v, &step->pattern.text, &step->prepend);
}

/* In a text's first token the pre-tokenizer has added the mark; it is removed. */
static mica_status metaspace_run(const token_step *step, mc_str token, bool first, mc_work *work,
                                 mc_buffer *out) {
    bool drop = first && step->prepend != MC_PREPEND_NEVER;
    mc_str content = drop ? (mc_str){"", 0} : MC_STR(" ");
    return mc_pattern_replace(&step->pattern, work, token, content, out);
}

static mica_status wordpiece_parse(const mc_steps *steps, mc_json v, token_step *step) {
    step->cleanup = true;
    MC_TRY(mc_steps_bool(steps, v, "cleanup", &step->cleanup));
    return mc_steps_str(steps, v, "prefix", &step->content);
}

/* Writes English as it is written: no space before a full stop, "n't" and the like. The output is
 * not longer than the input. */
static bool clean_up(mc_str text, mc_buffer *out) {
    static const struct {
        mc_str from, to;
    } rules[] = {
        {{" .", 2}, {".", 1}},     {{" ?", 2}, {"?", 1}},           {{" !", 2}, {"!", 1}},
        {{" ,", 2}, {",", 1}},     {{" ' ", 3}, {"'", 1}},          {{" n't", 4}, {"n't", 3}},
        {{" 'm", 3}, {"'m", 2}},   {{" do not", 7}, {" don't", 6}}, {{" 's", 3}, {"'s", 2}},
        {{" 've", 4}, {"'ve", 3}}, {{" 're", 4}, {"'re", 3}},
    };
    mc_buffer_clear(out);
    if (!mc_buffer_add(out, text.ptr, text.len)) return false;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        size_t kept = 0;
        for (size_t at = 0; at < out->len;) {
            mc_str rest = {out->data + at, out->len - at};
            bool hit = mc_str_starts(rest, rules[r].from);
            size_t n = hit ? rules[r].to.len : 1;
            memmove(out->data + kept, hit ? rules[r].to.ptr : rest.ptr, n);
            kept += n;
            at += hit ? rules[r].from.len : 1;
        }
        out->len = kept;
    }
    return true;
}

/* A token that continues a word loses its prefix; another one but the first gets a space. */
static mica_status wordpiece_run(const token_step *step, mc_str token, bool first, mc_work *work,
                                 mc_buffer *out) {
    bool inner = mc_str_starts(token, step->content);
    mc_buffer clean = {0};
    MC_TRY(mc_work_add(work, 1));
    if (!first && inner) {
        token.ptr += step->content.len;
        token.len -= step->content.len;
    }
    bool ok = (first || inner || mc_buffer_add_byte(out, ' ')) &&
              mc_buffer_add(out, token.ptr, token.len);
    if (ok && step->cleanup) {
        ok = clean_up((mc_str){out->data, out->len}, &clean);
        mc_buffer_clear(out);
        ok = ok && mc_buffer_add(out, clean.data, clean.len);
    }
    mc_buffer_deinit(&clean);
    return ok ? MICA_OK : mc_fail_nomem("text");
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

static mica_status byte_level_stage(const mc_steps *steps, const token_step *step, mc_decoder *d) {
    (void)step;
    if (d->fused || d->byte_fallback) return wrong_place(steps, "ByteLevel");
    d->byte_level = d->fused = true;
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
    {"WordPiece", wordpiece_parse, wordpiece_run, NULL},
    {"ByteFallback", nothing_parse, NULL, byte_fallback_stage},
    {"ByteLevel", nothing_parse, NULL, byte_level_stage},
    {"Fuse", nothing_parse, NULL, fuse_stage},
};

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    mc_decoder *d = steps->into;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        token_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        d->first_differs |= kinds[i].run == wordpiece_run ||
                            (kinds[i].run == metaspace_run && step.prepend != MC_PREPEND_NEVER);
        if (kinds[i].run && !d->byte_fallback && !d->fused) {
            if (MC_BUFFER_COUNT(&d->steps, token_step) == MAX_STEPS)
                return mc_steps_too_many(steps, MAX_STEPS);
            return mc_buffer_add(&d->steps, &step, sizeof step) ? MICA_OK
                                                                : mc_fail_nomem("decoder");
        }
        if (kinds[i].stage) return kinds[i].stage(steps, &step, d);
        return wrong_place(steps, kinds[i].type);
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_decoder_parse(mc_decoder *d, mc_json v, mc_store *store) {
    d->joins_with_spaces = !mc_json_exists(v);
    return mc_steps_parse(&(mc_steps){"decoder", "decoders", store, d, add}, v);
}

void mc_decoder_deinit(mc_decoder *d) {
    mc_buffer_deinit(&d->steps);
    mc_buffer_deinit(&d->tokens);
    mc_buffer_deinit(&d->texts);
}

/* The token's text after the steps; in scratch memory if there are any steps. */
static mica_status run_steps(const mc_decoder *d, mc_decoding *s, mc_str token, bool first,
                             mc_str *out) {
    const token_step *steps = MC_BUFFER_AT(&d->steps, token_step);
    mc_work_begin(&s->work, token.len, MC_GROWTH_DECODE);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&d->steps, token_step); i++) {
        mc_buffer *to = &s->scratch[i % 2];
        mc_buffer_clear(to);
        MC_TRY(steps[i].kind->run(&steps[i], token, first, &s->work, to));
        token = (mc_str){to->len ? to->data : "", to->len};
    }
    *out = token;
    return MICA_OK;
}

/* Adds to the whole text, without the characters stripped from its beginning. */
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

/* The byte of a token "<0xAB>" (either case); -1: another token. */
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

/* Checks the bytes that were added since the last call. */
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

/* Turns ByteLevel's bytes to text: whole characters, and U+FFFD for bytes that can never become
 * one. An unfinished character is kept, except at the end. */
static bool settle_bytes(const mc_decoder *d, mc_decoding *s, bool end) {
    const char *bytes = s->bytes.data;
    size_t n = s->bytes.len, done = 0, at = 0;
    while (at < n) {
        if ((uint8_t)bytes[at] < 0x80) {
            at++;
            continue;
        }
        uint32_t codepoint;
        size_t len = mc_utf8_decode(bytes + at, n - at, &codepoint);
        if (len == 0 && !end && mc_utf8_unfinished(bytes + at, n - at) == n - at) break;
        at += len;
        if (len > 0) continue;
        if (!add_text(d, s, (mc_str){bytes + done, at - done}) ||
            !add_text(d, s, MC_STR("\xEF\xBF\xBD"))) {
            return false;
        }
        done = at += mc_utf8_bad_len(bytes + at, n - at);
    }
    if (at > done && !add_text(d, s, (mc_str){bytes + done, at - done})) return false;
    if (n > at) memmove(s->bytes.data, bytes + at, n - at);
    s->bytes.len = n - at;
    return true;
}

bool mc_decode_settle(const mc_decoder *d, mc_decoding *s, bool *no_memory) {
    if (d->byte_level) {
        *no_memory = !settle_bytes(d, s, false);
        return s->bytes.len == 0;
    }
    check_bytes(s);
    if (s->bytes_bad || s->bytes_valid < s->bytes.len) return false;
    *no_memory = !add_text(d, s, (mc_str){s->bytes.data, s->bytes.len});
    if (!*no_memory) clear_bytes(s);
    return true;
}

bool mc_decode_end(const mc_decoder *d, mc_decoding *s) {
    bool no_memory = false;
    if (s->bytes.len == 0) return true;
    if (d->byte_level) return settle_bytes(d, s, true);
    if (mc_decode_settle(d, s, &no_memory)) return !no_memory;
    for (size_t i = 0; i < s->bytes.len; i++) {
        if (!add_text(d, s, MC_STR("\xEF\xBF\xBD"))) return false;
    }
    clear_bytes(s);
    return true;
}

/* Adds a token's text after the steps. */
static bool take_text(const mc_decoder *d, mc_decoding *s, mc_str text, int byte) {
    if (byte >= 0) return mc_buffer_add_byte(&s->bytes, (char)byte);
    if (d->byte_level) return mc_buffer_add(&s->bytes, text.ptr, text.len);
    return mc_decode_end(d, s) && add_text(d, s, text);
}

static mica_status take_first(const mc_decoder *d, mc_decoding *s, mc_str token) {
    bool ok;
    mc_regex_begin(&s->work.regex, token.len);
    MC_TRY(run_steps(d, s, token, true, &token));
    if (d->byte_level) {
        ok = mc_byte_level_unspell(token, &s->bytes);
    } else {
        ok = take_text(d, s, token, d->byte_fallback ? byte_of(token) : -1);
    }
    return ok ? MICA_OK : mc_fail_nomem("text");
}

mica_status mc_decode_token(const mc_decoder *d, mc_decoding *s, int32_t id, mc_str token) {
    mc_decoded known = MC_BUFFER_AT(&d->tokens, mc_decoded)[id];
    bool first = !s->started;
    if (known.len_flags & MC_DECODED_NONE) return MICA_OK;
    s->started = true;
    if (first && d->first_differs) return take_first(d, s, token);
    if (d->joins_with_spaces && !first && !add_text(d, s, MC_STR(" ")))
        return mc_fail_nomem("text");
    bool is_byte = known.len_flags & MC_DECODED_BYTE;
    mc_str text = {d->texts.data + (is_byte ? 0 : known.start), known.len_flags & MC_DECODED_LEN};
    return take_text(d, s, text, is_byte ? (int)known.start : -1) ? MICA_OK : mc_fail_nomem("text");
}

static mica_status learn_token(mc_decoder *d, mc_decoding *s, mc_str token, mc_decoded *known) {
    size_t start = d->texts.len;
    MC_TRY(run_steps(d, s, token, false, &token));
    int byte = d->byte_fallback ? byte_of(token) : -1;
    if (byte >= 0) {
        *known = (mc_decoded){(uint32_t)byte, MC_DECODED_BYTE};
        return MICA_OK;
    }
    if (token.len > MAX_BYTES - start) {
        return mc_fail(MICA_EUNSUPPORTED, "decoder: the tokens' texts are more than %d MiB",
                       MAX_BYTES >> 20);
    }
    bool ok = d->byte_level ? mc_byte_level_unspell(token, &d->texts)
                            : mc_buffer_add(&d->texts, token.ptr, token.len);
    if (!ok) return mc_fail_nomem("decoder");
    *known = (mc_decoded){(uint32_t)start, (uint32_t)(d->texts.len - start)};
    return MICA_OK;
}

mica_status mc_decoder_learn(mc_decoder *d, size_t n, size_t bytes,
                             mc_str (*spelled)(const void *arg, int32_t id), const void *arg) {
    mc_decoding s = {0};
    mica_status status = MICA_OK;
    if (!mc_buffer_reserve(&d->tokens, n * sizeof(mc_decoded)) ||
        !mc_buffer_add_byte(&d->texts, '\0')) {
        return mc_fail_nomem("decoder");
    }
    mc_regex_begin(&s.work.regex, bytes);
    for (size_t id = 0; status == MICA_OK && id < n; id++) {
        mc_str token = spelled(arg, (int32_t)id);
        mc_decoded known = {0, MC_DECODED_NONE};
        if (token.ptr) status = learn_token(d, &s, token, &known);
        mc_buffer_add(&d->tokens, &known, sizeof known);
    }
    mc_decoding_deinit(&s);
    return status;
}

/* All bytes, one after the other. */
static const char *every_byte(void) {
#define BYTES_4(n) (char)(n), (char)((n) + 1), (char)((n) + 2), (char)((n) + 3)
#define BYTES_16(n) BYTES_4(n), BYTES_4((n) + 4), BYTES_4((n) + 8), BYTES_4((n) + 12)
#define BYTES_64(n) BYTES_16(n), BYTES_16((n) + 16), BYTES_16((n) + 32), BYTES_16((n) + 48)
    static const char bytes[] = {BYTES_64(0), BYTES_64(64), BYTES_64(128), BYTES_64(192)};
#undef BYTES_64
#undef BYTES_16
#undef BYTES_4
    return bytes;
}

bool mc_decoder_bytes(const mc_decoder *d, int32_t id, mc_str *bytes) {
    if (id < 0 || (size_t)id >= MC_BUFFER_COUNT(&d->tokens, mc_decoded)) return false;
    mc_decoded known = MC_BUFFER_AT(&d->tokens, mc_decoded)[id];
    if (known.len_flags & MC_DECODED_NONE) return false;
    *bytes = known.len_flags & MC_DECODED_BYTE
                 ? (mc_str){every_byte() + known.start, 1}
                 : (mc_str){d->texts.data + known.start, known.len_flags & MC_DECODED_LEN};
    return true;
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
    mc_work_deinit(&s->work);
}

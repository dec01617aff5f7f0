#include "grammar/grammar_regex.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <string.h>

enum { MAX_DEPTH = 64, MAX_REPEAT = 10000, MAX_PATTERN = 1 << 16 };

/* A part of the pattern, in an array; the parts that it is made of have lower numbers. */
typedef enum part_kind { PART_EMPTY, PART_CLASS, PART_BOTH, PART_EITHER, PART_REPEAT } part_kind;

typedef struct part {
    part_kind kind;
    int32_t one, other; /* of BOTH, EITHER; REPEAT repeats `one`. CLASS: ranges one to other - 1 */
    int min, max;       /* REPEAT; max -1: no limit */
} part;

typedef struct regex {
    mc_builder *b;
    mc_char_form form;
    unsigned how;
    mc_str text;
    size_t at;
    int depth;
    mc_buffer parts;  /* part */
    mc_buffer ranges; /* mc_char_range */
} regex;

static const mc_char_range digits[] = {{'0', '9'}},
                           words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                           spaces[] = {{'\t', '\r'}, {' ', ' '}};
static const mc_char_range terminators[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/* ---- errors ---- */

static int32_t fail(regex *r, mica_status status, const char *what) {
    mc_builder_fail(r->b, mc_fail(status, "%s at byte %zu", what, r->at));
    return -1;
}

static int32_t nomem(regex *r) {
    mc_builder_fail(r->b, mc_fail_nomem("a pattern"));
    return -1;
}

static int32_t add_part(regex *r, part p) {
    int32_t n = (int32_t)MC_BUFFER_COUNT(&r->parts, part);
    if (r->b->status != MICA_OK) return -1;
    return mc_buffer_add(&r->parts, &p, sizeof p) ? n : nomem(r);
}

static bool put_range(regex *r, uint32_t low, uint32_t high) {
    const mc_char_range range = {low, high};
    if (low > high || mc_buffer_add(&r->ranges, &range, sizeof range)) return true;
    nomem(r);
    return false;
}

/* Adds the letters of a range that are `first` to first + 25, in the case that begins at `to`. */
static bool fold_range(regex *r, uint32_t low, uint32_t high, uint32_t first, uint32_t to) {
    if (low < first) low = first;
    if (high > first + 25) high = first + 25;
    return low > high || put_range(r, low - first + to, high - first + to);
}

static bool add_range(regex *r, uint32_t low, uint32_t high) {
    if (!put_range(r, low, high)) return false;
    if (!(r->how & MC_REGEX_FOLD)) return true;
    return fold_range(r, low, high, 'a', 'A') && fold_range(r, low, high, 'A', 'a');
}

/* ---- reading ---- */

static int peek(const regex *r) { /* -1 at the end */
    return r->at < r->text.len ? (unsigned char)r->text.ptr[r->at] : -1;
}

static bool take_byte(regex *r, int byte) {
    if (peek(r) != byte) return false;
    r->at++;
    return true;
}

static bool take_hex(regex *r, int count, uint32_t *value) {
    static const char hex[] = "0123456789abcdef";
    *value = 0;
    for (int i = 0; i < count; i++) {
        int c = peek(r);
        if (c >= 'A' && c <= 'F') c += 'a' - 'A';
        const char *found = c > 0 ? strchr(hex, c) : NULL;
        if (!found) return false;
        *value = *value * 16 + (uint32_t)(found - hex);
        r->at++;
    }
    return true;
}

/* Adds a class that an escape names; upper case: what it leaves out of ASCII. */
static bool add_named(regex *r, int name) {
    const struct {
        char name;
        const mc_char_range *ranges;
        size_t count;
    } named[] = {{'d', digits, 1}, {'w', words, 4}, {'s', spaces, 2}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        mc_char_range inverted[5];
        size_t n = named[i].count;
        if ((name | 0x20) != named[i].name) continue;
        bool out = name < 'a';
        if (out) n = mc_char_ranges_invert(named[i].ranges, n, 0x7f, inverted);
        for (size_t k = 0; k < n; k++) {
            const mc_char_range *range = out ? &inverted[k] : &named[i].ranges[k];
            if (!add_range(r, range->low, range->high)) return false;
        }
        return true;
    }
    return false;
}

/* The character that an escape behind its backslash stands for. */
static bool escaped_char(regex *r, uint32_t *c) {
    static const char names[] = "tnrfv", values[] = "\t\n\r\f\v";
    static const char literal[] = "^$\\.*+?()[]{}|/-\"'#&%,:;<=>!@`~_ ";
    int name = peek(r);
    const char *found = name > 0 ? strchr(names, name) : NULL;
    r->at++;
    if (found) return *c = (uint32_t)values[found - names], true;
    if (name == '0' && !(peek(r) >= '0' && peek(r) <= '9')) return *c = 0, true;
    if (name == 'x') return take_hex(r, 2, c);
    if (name == 'u') return take_hex(r, 4, c) && (*c < 0xd800 || *c > 0xdfff);
    if (name > 0 && strchr(literal, name)) return *c = (uint32_t)name, true;
    r->at--;
    return false;
}

static bool is_class_name(int c) {
    return c > 0 && strchr("dwsDWS", c);
}

static bool next_char(regex *r, uint32_t *c) {
    size_t n = mc_utf8_decode(r->text.ptr + r->at, r->text.len - r->at, c);
    r->at += n;
    return n > 0;
}

/* ---- classes ---- */

static int32_t class_part(regex *r, size_t first) {
    size_t n = MC_BUFFER_COUNT(&r->ranges, mc_char_range) - first;
    n = mc_char_ranges_join(MC_BUFFER_AT(&r->ranges, mc_char_range) + first, n);
    r->ranges.len = (first + n) * sizeof(mc_char_range);
    return add_part(r, (part){PART_CLASS, (int32_t)first, (int32_t)(first + n), 0, 0});
}

/* Replaces the ranges from `first` on by what they leave out. */
static bool invert(regex *r, size_t first, uint32_t max) {
    size_t n = MC_BUFFER_COUNT(&r->ranges, mc_char_range) - first;
    if (!mc_buffer_reserve(&r->ranges, (n + 1) * sizeof(mc_char_range))) return nomem(r), false;
    mc_char_range *ranges = MC_BUFFER_AT(&r->ranges, mc_char_range) + first;
    n = mc_char_ranges_join(ranges, n);
    size_t kept = mc_char_ranges_invert(ranges, n, max, ranges + n);
    memmove(ranges, ranges + n, kept * sizeof *ranges);
    r->ranges.len = (first + kept) * sizeof *ranges;
    return true;
}

/* One member of a class in brackets, or a range of two. */
static bool read_member(regex *r, bool *named) {
    uint32_t low, high;
    if (take_byte(r, '\\')) {
        if (is_class_name(peek(r))) {
            *named = true;
            return add_named(r, r->text.ptr[r->at++]);
        }
        if (take_byte(r, 'b'))
            low = '\b';
        else if (!escaped_char(r, &low))
            return false;
    } else if (!next_char(r, &low)) {
        return false;
    }
    high = low;
    if (peek(r) == '-' && r->at + 1 < r->text.len && r->text.ptr[r->at + 1] != ']') {
        r->at++;
        if (take_byte(r, '\\') ? !escaped_char(r, &high) : !next_char(r, &high)) return false;
        if (high < low) return false;
    }
    return add_range(r, low, high);
}

/* [...], behind its bracket. */
static int32_t read_class(regex *r) {
    size_t first = MC_BUFFER_COUNT(&r->ranges, mc_char_range);
    bool out = take_byte(r, '^'), named = false;
    if (peek(r) == ']') return fail(r, MICA_EUNSUPPORTED, "an empty class");
    while (peek(r) != ']') {
        if (peek(r) < 0) return fail(r, MICA_EFORMAT, "a class without its ]");
        if (!read_member(r, &named))
            return fail(r, MICA_EUNSUPPORTED, "something in a class that is not supported");
    }
    r->at++;
    bool wide = r->how & MC_REGEX_WIDE;
    if (named && wide && !out && !add_range(r, 0x80, MC_CHAR_MAX)) return -1;
    if (out && !invert(r, first, named && !wide ? 0x7f : MC_CHAR_MAX)) return -1;
    return class_part(r, first);
}

static int32_t single(regex *r, uint32_t c) {
    size_t first = MC_BUFFER_COUNT(&r->ranges, mc_char_range);
    return add_range(r, c, c) ? class_part(r, first) : -1;
}

static int32_t read_dot(regex *r) {
    size_t first = MC_BUFFER_COUNT(&r->ranges, mc_char_range);
    mc_char_range rest[4];
    size_t count = r->how & MC_REGEX_DOT_ALL ? 0 : r->how & MC_REGEX_WIDE ? 1 : 3;
    size_t n = mc_char_ranges_invert(terminators, count, MC_CHAR_MAX, rest);
    for (size_t i = 0; i < n; i++)
        if (!add_range(r, rest[i].low, rest[i].high)) return -1;
    return class_part(r, first);
}

static int32_t read_escape(regex *r) {
    size_t first = MC_BUFFER_COUNT(&r->ranges, mc_char_range);
    uint32_t c;
    if (is_class_name(peek(r))) {
        if (!add_named(r, r->text.ptr[r->at++])) return -1;
        if (r->how & MC_REGEX_WIDE && !add_range(r, 0x80, MC_CHAR_MAX)) return -1;
        return class_part(r, first);
    }
    if (escaped_char(r, &c)) return single(r, c);
    return fail(r, MICA_EUNSUPPORTED, "an escape that is not supported");
}

/* ---- structure ---- */

static int32_t read_either(regex *r, bool top);

/* (...), behind its parenthesis. */
static int32_t read_group(regex *r) {
    if (take_byte(r, '?') && !take_byte(r, ':'))
        return fail(r, MICA_EUNSUPPORTED, "a group that is not (...) or (?:...)");
    if (++r->depth > MAX_DEPTH) return fail(r, MICA_EUNSUPPORTED, "groups nested too deep");
    int32_t inner = read_either(r, false);
    r->depth--;
    if (r->b->status == MICA_OK && !take_byte(r, ')'))
        return fail(r, MICA_EFORMAT, "a group without its )");
    return inner;
}

static int32_t read_atom(regex *r) {
    uint32_t c;
    if (take_byte(r, '(')) return read_group(r);
    if (take_byte(r, '[')) return read_class(r);
    if (take_byte(r, '.')) return read_dot(r);
    if (take_byte(r, '\\')) return read_escape(r);
    int byte = peek(r);
    if (byte == '^' || byte == '$') return fail(r, MICA_EUNSUPPORTED, "^ or $ within the pattern");
    if (byte > 0 && strchr("*+?{", byte)) return fail(r, MICA_EFORMAT, "nothing to repeat");
    return next_char(r, &c) ? single(r, c) : fail(r, MICA_EFORMAT, "text that is not UTF-8");
}

static bool read_number(regex *r, int *value) {
    size_t from = r->at;
    *value = 0;
    for (int c; (c = peek(r)) >= '0' && c <= '9'; r->at++)
        if (*value <= MAX_REPEAT) *value = *value * 10 + c - '0';
    return r->at > from;
}

/* {n}, {n,} or {n,m}, behind its brace. */
static bool read_counts(regex *r, int *min, int *max) {
    if (!read_number(r, min)) return false;
    *max = *min;
    if (take_byte(r, ',') && !read_number(r, max)) *max = -1;
    return take_byte(r, '}') && *min <= MAX_REPEAT && *max <= MAX_REPEAT &&
           (*max < 0 || *max >= *min);
}

static int32_t read_repeat(regex *r) {
    int32_t atom = read_atom(r);
    int min = 0, max = -1;
    if (take_byte(r, '+')) {
        min = 1;
    } else if (take_byte(r, '?')) {
        max = 1;
    } else if (take_byte(r, '{')) {
        if (!read_counts(r, &min, &max))
            return fail(r, MICA_EUNSUPPORTED, "a repetition that is not supported");
    } else if (!take_byte(r, '*')) {
        return atom;
    }
    (void)take_byte(r, '?'); /* lazy: the same texts match */
    return add_part(r, (part){PART_REPEAT, atom, -1, min, max});
}

/* Any characters, for a pattern that may match anywhere. */
static int32_t anything(regex *r) {
    size_t first = MC_BUFFER_COUNT(&r->ranges, mc_char_range);
    if (!add_range(r, 0, MC_CHAR_MAX)) return -1;
    return add_part(r, (part){PART_REPEAT, class_part(r, first), -1, 0, -1});
}

static int32_t both(regex *r, int32_t one, int32_t other) {
    return add_part(r, (part){PART_BOTH, one, other, 0, 0});
}

/* An alternative. `top`: of the whole pattern, with its anchors. */
static int32_t read_sequence(regex *r, bool top) {
    bool begins = top && !take_byte(r, '^') && (r->how & MC_REGEX_ANYWHERE);
    bool ends = top && (r->how & (MC_REGEX_ANYWHERE | MC_REGEX_BEGINNING));
    int32_t all = begins ? anything(r) : add_part(r, (part){.kind = PART_EMPTY});
    while (r->b->status == MICA_OK && peek(r) >= 0 && peek(r) != '|' && peek(r) != ')') {
        if (top && peek(r) == '$' && (r->at + 1 == r->text.len || r->text.ptr[r->at + 1] == '|')) {
            r->at++;
            ends = false;
            break;
        }
        all = both(r, all, read_repeat(r));
    }
    return ends ? both(r, all, anything(r)) : all;
}

static int32_t read_either(regex *r, bool top) {
    int32_t all = read_sequence(r, top);
    while (r->b->status == MICA_OK && take_byte(r, '|')) {
        int32_t other = read_sequence(r, top);
        all = add_part(r, (part){PART_EITHER, all, other, 0, 0});
    }
    return all;
}

/* ---- building ---- */

static int32_t build(regex *r, int32_t number, int32_t next);

/* Whether a part is any character. */
static bool is_anything(const regex *r, int32_t number) {
    const part *p = &MC_BUFFER_AT(&r->parts, part)[number];
    const mc_char_range *range = &MC_BUFFER_AT(&r->ranges, mc_char_range)[p->one];
    return p->kind == PART_CLASS && p->other == p->one + 1 && !range->low &&
           range->high == MC_CHAR_MAX;
}

static int32_t build_repeat(regex *r, part p, int32_t next) {
    int32_t all = next;
    if (p.max < 0) {
        int32_t loop = mc_build_open(r->b);
        if (is_anything(r, p.one)) mc_build_plain(r->b, loop);
        mc_build_close(r->b, loop, build(r, p.one, loop), next);
        all = loop;
    }
    for (int i = p.min; i < p.max; i++) {
        int32_t before = all;
        all = mc_build_split(r->b, build(r, p.one, all), next);
        if (all == before || r->b->status != MICA_OK) break;
    }
    for (int i = 0; i < p.min; i++) {
        int32_t before = all;
        all = build(r, p.one, all);
        if (all == before || r->b->status != MICA_OK) break; /* it reads nothing */
    }
    return all;
}

/* Parts are as deep as groups nest, but for those of alternatives and sequences, which are chains
 * by their first part. */
static int32_t build(regex *r, int32_t number, int32_t next) {
    int32_t all = MC_DEAD;
    for (;;) {
        if (!mc_builder_count(r->b)) return MC_DEAD;
        part p = MC_BUFFER_AT(&r->parts, part)[number];
        const mc_char_range *ranges = MC_BUFFER_AT(&r->ranges, mc_char_range);
        switch (p.kind) {
        case PART_EMPTY:
            return mc_build_split(r->b, next, all);
        case PART_CLASS:
            next = mc_build_class(r->b, r->form, ranges + p.one, (size_t)(p.other - p.one), next);
            return mc_build_split(r->b, next, all);
        case PART_REPEAT:
            return mc_build_split(r->b, build_repeat(r, p, next), all);
        case PART_EITHER:
            all = mc_build_split(r->b, build(r, p.other, next), all);
            break;
        case PART_BOTH:
            next = build(r, p.other, next);
            break;
        }
        number = p.one;
    }
}

/* Reads a pattern. Returns its last part. */
static int32_t read_pattern(regex *r) {
    if (r->text.len > MAX_PATTERN) return fail(r, MICA_EUNSUPPORTED, "the pattern is too long");
    int32_t all = read_either(r, true);
    if (r->b->status == MICA_OK && r->at < r->text.len)
        return fail(r, MICA_EFORMAT, "a ) without its (");
    return all;
}

static void deinit(regex *r) {
    mc_buffer_deinit(&r->parts);
    mc_buffer_deinit(&r->ranges);
}

int32_t mc_build_regex(mc_builder *b, mc_char_form form, mc_str pattern, unsigned how,
                       int32_t next) {
    regex r = {.b = b, .form = form, .how = how, .text = pattern};
    int32_t start = MC_DEAD;
    if (b->status != MICA_OK) return MC_DEAD;
    int32_t all = read_pattern(&r);
    if (b->status == MICA_OK) start = build(&r, all, next);
    deinit(&r);
    return start;
}

/* ---- lengths ---- */

typedef struct lengths {
    int64_t min, max; /* max -1: no limit */
} lengths;

static lengths lengths_of(part p, const lengths *of) {
    enum { MANY = 1 << 30 }; /* what is longer counts as that long, or as without limit */
    lengths l = {0, 0}, one = {0, 0}, other = {0, 0};
    if (p.kind == PART_BOTH || p.kind == PART_EITHER || p.kind == PART_REPEAT) one = of[p.one];
    if (p.kind == PART_BOTH || p.kind == PART_EITHER) other = of[p.other];
    bool open = one.max < 0 || other.max < 0;
    switch (p.kind) {
    case PART_EMPTY:
        break;
    case PART_CLASS:
        l = (lengths){1, 1};
        break;
    case PART_BOTH:
        l = (lengths){one.min + other.min, open ? -1 : one.max + other.max};
        break;
    case PART_EITHER:
        l.min = one.min < other.min ? one.min : other.min;
        l.max = open ? -1 : one.max > other.max ? one.max : other.max;
        break;
    case PART_REPEAT:
        l = (lengths){one.min * p.min, open || p.max < 0 ? -1 : one.max * p.max};
        if (one.max == 0 || p.max == 0) l.max = 0;
        break;
    }
    if (l.min > MANY) l.min = MANY;
    if (l.max > MANY) l.max = -1;
    return l;
}

bool mc_regex_lengths(mc_str pattern, unsigned how, int64_t *min, int64_t *max) {
    mc_builder b;
    regex r = {.b = &b, .how = how, .text = pattern};
    bool known = false;
    mc_builder_init(&b);
    int32_t all = b.status == MICA_OK ? read_pattern(&r) : -1;
    size_t count = MC_BUFFER_COUNT(&r.parts, part);
    lengths *of = b.status == MICA_OK ? mc_array_alloc(count, sizeof *of) : NULL;
    for (size_t i = 0; of && i < count; i++)
        of[i] = lengths_of(MC_BUFFER_AT(&r.parts, part)[i], of);
    if (of && all >= 0) {
        *min = of[all].min;
        *max = of[all].max;
        known = true;
    }
    mc_free(of);
    deinit(&r);
    mc_builder_deinit(&b);
    return known;
}

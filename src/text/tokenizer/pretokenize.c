#include "text/tokenizer/pretokenize.h"

#include "text/space.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/scan.h"
#include "text/tokenizer/steps.h"

/* What a split does with the delimiters that it finds. */
typedef enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} split_behavior;

static const char *const behavior_names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous"};

typedef struct split_step {
    const struct split_kind *kind;
    mc_pattern pattern; /* Metaspace: the replacement */
    split_behavior behavior;
    mc_prepend prepend; /* Metaspace */
    bool invert;
    bool split; /* Metaspace; Digits: each digit */
    mc_scan scan;
    const mc_classes *classes; /* for scan */
} split_step;

typedef struct stage { /* a step in a run */
    const split_step *step;
    mc_pretokenizing *run;
    size_t index;
    bool at_start;
    mc_buffer *text; /* scratch memory, valid while its pieces are taken */
} stage;

typedef struct split_kind {
    const char *type;
    mica_status (*parse)(const mc_steps *steps, mc_json v, split_step *step);
    mica_status (*run)(const stage *at, mc_str text); /* text is not empty */
} split_kind;

/* Gives a piece to the step at `index`. */
static mica_status feed(mc_pretokenizing *run, size_t index, mc_str piece) {
    if (piece.len == 0) return MICA_OK;
    if (index == run->count) return run->take(run->arg, piece);
    const split_step *step = &MC_BUFFER_AT(&run->pretokenizer->steps, split_step)[index];
    stage at = {step, run, index, !run->stages[index].begun, &run->stages[index].text};
    run->stages[index].begun = true;
    return step->kind->run(&at, piece);
}

static mica_status hand_on(const stage *at, mc_str piece) {
    return feed(at->run, at->index + 1, piece);
}

/* Cuts a text at the matches of a pattern. It is called for all spans in order, matches and the
 * text between them. */
typedef struct cutter {
    split_behavior behavior;
    mc_str text;
    size_t start;  /* of the open piece */
    size_t end;    /* of the open piece; equals start if there is none */
    bool open_hit; /* the open piece ends in a match */
    const stage *at;
} cutter;

static mica_status close_piece(cutter *c) {
    mc_str piece = {c->text.ptr + c->start, c->end - c->start};
    c->start = c->end;
    return hand_on(c->at, piece);
}

/* Takes the span [c->end, end). */
static mica_status cut(cutter *c, size_t end, bool hit) {
    bool joins = false;
    switch (c->behavior) {
    case SPLIT_REMOVED:
    case SPLIT_ISOLATED:
        break;
    case SPLIT_MERGED_WITH_PREVIOUS:
        joins = hit && !c->open_hit;
        break;
    case SPLIT_MERGED_WITH_NEXT:
        joins = !hit && c->open_hit;
        break;
    case SPLIT_CONTIGUOUS:
        joins = hit == c->open_hit;
        break;
    }
    if (!joins) MC_TRY(close_piece(c));
    c->end = end;
    c->open_hit = hit;
    if (hit && c->behavior == SPLIT_REMOVED) c->start = end;
    return MICA_OK;
}

static mica_status split_at(const stage *at, mc_str text, const mc_pattern *pattern,
                            split_behavior behavior, bool invert) {
    cutter c = {.behavior = behavior, .text = text, .at = at};
    mc_matches m = {.pattern = pattern, .room = &at->run->work->regex, .text = text};
    for (bool found = true; found;) {
        mc_span hit = {text.len, text.len};
        MC_TRY(mc_matches_next(&m, &hit, &found));
        if (!found) hit.start = text.len;
        if (hit.start > c.end) MC_TRY(cut(&c, hit.start, invert));
        if (found) MC_TRY(cut(&c, hit.end, !invert));
    }
    return close_piece(&c);
}

/* Splits at the characters for which is_hit is true. */
static mica_status split_chars(const stage *at, mc_str text, bool (*is_hit)(uint32_t c),
                               split_behavior behavior) {
    cutter c = {.behavior = behavior, .text = text, .at = at};
    while (c.end < text.len) {
        uint32_t codepoint;
        size_t n = mc_next_char(text.ptr + c.end, &codepoint);
        bool hit = is_hit(codepoint);
        size_t end = c.end + n;
        while (!hit && end < text.len) { /* the text between two hits is one span */
            n = mc_next_char(text.ptr + end, &codepoint);
            if (is_hit(codepoint)) break;
            end += n;
        }
        MC_TRY(cut(&c, end, hit));
    }
    return close_piece(&c);
}

static mica_status parse_behavior(const mc_steps *steps, mc_json v, split_step *step) {
    mc_str name;
    MC_TRY(mc_steps_str(steps, v, "behavior", &name));
    for (size_t i = 0; i < sizeof behavior_names / sizeof *behavior_names; i++) {
        step->behavior = (split_behavior)i;
        if (mc_str_is(name, behavior_names[i])) return MICA_OK;
    }
    return mc_fail(MICA_EUNSUPPORTED, "%s: the split behavior '%.*s' is not supported",
                   steps->field, MC_STR_ARG(name));
}

/* Finds the scan function of a well-known pattern. These patterns match everywhere, so that two
 * behaviors mean "each match is a piece". */
static mica_status find_scan(const mc_steps *steps, split_step *step) {
    bool pieces = step->invert ? step->behavior == SPLIT_REMOVED : step->behavior == SPLIT_ISOLATED;
    if (!step->pattern.regex || !pieces) return MICA_OK;
    step->scan = mc_scan_find(step->pattern.text);
    return step->scan ? mc_store_classes(steps->store, &step->classes) : MICA_OK;
}

static mica_status split_parse(const mc_steps *steps, mc_json v, split_step *step) {
    MC_TRY(mc_steps_pattern(steps, v, &step->pattern));
    MC_TRY(mc_steps_bool(steps, v, "invert", &step->invert));
    MC_TRY(parse_behavior(steps, v, step));
    return find_scan(steps, step);
}

static mica_status split_run(const stage *at, mc_str text) {
    const split_step *step = at->step;
    if (!step->scan) return split_at(at, text, &step->pattern, step->behavior, step->invert);
    while (text.len) {
        mc_str piece = {text.ptr, step->scan(step->classes, text)};
        MC_TRY(hand_on(at, piece));
        text.ptr += piece.len;
        text.len -= piece.len;
    }
    return MICA_OK;
}

static mica_status metaspace_parse(const mc_steps *steps, mc_json v, split_step *step) {
    step->split = true;
    MC_TRY(mc_steps_metaspace(steps, v, &step->pattern.text, &step->prepend));
    return mc_steps_bool(steps, v, "split", &step->split);
}

static mica_status metaspace_run(const stage *at, mc_str text) {
    const split_step *step = at->step;
    static const mc_pattern space = {.text = {" ", 1}};
    mc_str mark = step->pattern.text;
    bool wanted =
        step->prepend == MC_PREPEND_ALWAYS || (step->prepend == MC_PREPEND_FIRST && at->at_start);
    mc_buffer_clear(at->text);
    if (wanted && text.ptr[0] != ' ' && !mc_str_starts(text, mark)) {
        MC_TRY(mc_work_add(at->run->work, mark.len));
        if (!mc_buffer_add(at->text, mark.ptr, mark.len)) return mc_fail_nomem("pieces of text");
    }
    MC_TRY(mc_pattern_replace(&space, at->run->work, text, mark, at->text));
    mc_str whole = {at->text->data, at->text->len};
    if (!step->split) return hand_on(at, whole);
    return split_at(at, whole, &step->pattern, SPLIT_MERGED_WITH_NEXT, false);
}

static mica_status plain_parse(const mc_steps *steps, mc_json v, split_step *step) {
    (void)steps;
    (void)v;
    (void)step;
    return MICA_OK;
}

static mica_status digits_parse(const mc_steps *steps, mc_json v, split_step *step) {
    bool each = false;
    MC_TRY(mc_steps_bool(steps, v, "individual_digits", &each));
    step->behavior = each ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return MICA_OK;
}

static mica_status digits_run(const stage *at, mc_str text) {
    return split_chars(at, text, mc_is_number, at->step->behavior);
}

static mica_status punctuation_parse(const mc_steps *steps, mc_json v, split_step *step) {
    step->behavior = SPLIT_ISOLATED;
    return mc_json_exists(mc_json_find(v, "behavior")) ? parse_behavior(steps, v, step) : MICA_OK;
}

static mica_status punctuation_run(const stage *at, mc_str text) {
    return split_chars(at, text, mc_is_punctuation, at->step->behavior);
}

static mica_status whitespace_split_run(const stage *at, mc_str text) {
    return split_chars(at, text, mc_is_space, SPLIT_REMOVED);
}

/* The pieces are the matches of \w+|[^\w\s]+. */
static mica_status whitespace_run(const stage *at, mc_str text) {
    size_t start = 0, n;
    int last = 0; /* class of the open piece: 0 space, 1 word, 2 others */
    for (size_t i = 0; i < text.len; i += n) {
        uint32_t c;
        n = mc_next_char(text.ptr + i, &c);
        int now = mc_is_word(c) ? 1 : mc_is_space(c) ? 0 : 2;
        if (now == last) continue;
        if (last) MC_TRY(hand_on(at, (mc_str){text.ptr + start, i - start}));
        start = i;
        last = now;
    }
    return last ? hand_on(at, (mc_str){text.ptr + start, text.len - start}) : MICA_OK;
}

static mica_status delimiter_parse(const mc_steps *steps, mc_json v, split_step *step) {
    return mc_steps_char(steps, v, "delimiter", &step->pattern.text);
}

static mica_status delimiter_run(const stage *at, mc_str text) {
    return split_at(at, text, &at->step->pattern, SPLIT_REMOVED, false);
}

static mica_status prefix_run(const stage *at, mc_str text) {
    if (text.ptr[0] == ' ') return hand_on(at, text);
    mc_buffer_clear(at->text);
    MC_TRY(mc_work_add(at->run->work, 1));
    if (!mc_buffer_add_byte(at->text, ' ') || !mc_buffer_add(at->text, text.ptr, text.len)) {
        return mc_fail_nomem("pieces of text");
    }
    return hand_on(at, (mc_str){at->text->data, at->text->len});
}

static mica_status spell_run(const stage *at, mc_str text) {
    mc_buffer_clear(at->text);
    MC_TRY(mc_work_add(at->run->work, text.len));
    if (!mc_byte_level_spell(text, at->text)) return mc_fail_nomem("pieces of text");
    at->run->work->left += 2 * text.len - at->text->len;
    return hand_on(at, (mc_str){at->text->data, at->text->len});
}

static const split_kind kinds[] = {
    {"Split", split_parse, split_run},
    {"Metaspace", metaspace_parse, metaspace_run},
    {"Digits", digits_parse, digits_run},
    {"Punctuation", punctuation_parse, punctuation_run},
    {"Whitespace", plain_parse, whitespace_run},
    {"WhitespaceSplit", plain_parse, whitespace_split_run},
    {"CharDelimiterSplit", delimiter_parse, delimiter_run},
};

/* The steps that ByteLevel consists of. */
static const split_kind prefix_kind = {"ByteLevel", NULL, prefix_run};
static const split_kind words_kind = {"ByteLevel", NULL, split_run};
static const split_kind spell_kind = {"ByteLevel", NULL, spell_run};

/* And those of BertPreTokenizer. */
static const split_kind spaces_kind = {"BertPreTokenizer", NULL, whitespace_split_run};
static const split_kind marks_kind = {"BertPreTokenizer", NULL, punctuation_run};

static mica_status add_step(const mc_steps *steps, const split_step *step) {
    mc_pretokenizer *p = steps->into;
    if (MC_BUFFER_COUNT(&p->steps, split_step) == MC_PRETOKENIZER_STEPS)
        return mc_steps_too_many(steps, MC_PRETOKENIZER_STEPS);
    p->spells_bytes = step->kind == &spell_kind;
    return mc_buffer_add(&p->steps, step, sizeof *step) ? MICA_OK : mc_fail_nomem("pre_tokenizer");
}

/* ByteLevel: adds a space in front, splits at GPT-2's words, and spells bytes as characters. */
static mica_status add_byte_level(const mc_steps *steps, mc_json v) {
    bool prefix = true, words = true;
    MC_TRY(mc_steps_bool(steps, v, "add_prefix_space", &prefix));
    MC_TRY(mc_steps_bool(steps, v, "use_regex", &words));
    if (prefix) MC_TRY(add_step(steps, &(split_step){.kind = &prefix_kind}));
    if (words) {
        split_step step = {.kind = &words_kind, .scan = mc_scan_find(MC_STR(MC_SCAN_GPT2))};
        MC_TRY(mc_store_classes(steps->store, &step.classes));
        MC_TRY(add_step(steps, &step));
    }
    return add_step(steps, &(split_step){.kind = &spell_kind});
}

/* BertPreTokenizer: leaves out white space; punctuation is a piece each. */
static mica_status add_bert(const mc_steps *steps) {
    MC_TRY(add_step(steps, &(split_step){.kind = &spaces_kind}));
    return add_step(steps, &(split_step){.kind = &marks_kind, .behavior = SPLIT_ISOLATED});
}

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    if (mc_str_is(type, "ByteLevel")) return add_byte_level(steps, v);
    if (mc_str_is(type, "BertPreTokenizer")) return add_bert(steps);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        split_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        return add_step(steps, &step);
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_pretokenizer_parse(mc_pretokenizer *p, mc_json v, mc_store *store) {
    return mc_steps_parse(&(mc_steps){"pre_tokenizer", "pretokenizers", store, p, add}, v);
}

void mc_pretokenizer_deinit(mc_pretokenizer *p) {
    mc_buffer_deinit(&p->steps);
}

mica_status mc_pretokenize(mc_pretokenizing *run, mc_str text, bool at_start) {
    const mc_pretokenizer *p = run->pretokenizer;
    run->count = MC_BUFFER_COUNT(&p->steps, split_step) - (p->leaves_bytes ? 1 : 0);
    for (size_t i = 0; i < run->count; i++)
        run->stages[i].begun = !at_start;
    return feed(run, 0, text);
}

void mc_pretokenizing_deinit(mc_pretokenizing *run) {
    for (size_t i = 0; i < MC_PRETOKENIZER_STEPS; i++)
        mc_buffer_deinit(&run->stages[i].text);
}

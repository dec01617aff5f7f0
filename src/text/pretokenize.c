#include "text/pretokenize.h"

#include "text/find.h"
#include "text/steps.h"

/* What becomes of the delimiters that a split finds. */
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
    mc_str pattern; /* Metaspace: the replacement */
    split_behavior behavior;
    mc_prepend prepend; /* Metaspace */
    bool invert;
    bool split; /* Metaspace */
} split_step;

typedef struct split_kind {
    const char *type;
    mica_status (*parse)(const mc_steps *steps, mc_json v, split_step *step);
    /* Adds the pieces of one piece; false: no memory. */
    bool (*run)(const split_step *step, mc_str text, bool at_start, mc_pieces *out);
} split_kind;

bool mc_pieces_add(mc_pieces *pieces, mc_str piece) {
    if (piece.len == 0) return true;
    size_t len = pieces->text.len;
    if (!mc_buffer_add(&pieces->text, piece.ptr, piece.len)) return false;
    if (MC_BUFFER_PUSH(&pieces->ends, size_t, pieces->text.len)) return true;
    pieces->text.len = len;
    return false;
}

size_t mc_pieces_count(const mc_pieces *pieces) {
    return MC_BUFFER_COUNT(&pieces->ends, size_t);
}

mc_str mc_pieces_at(const mc_pieces *pieces, size_t i) {
    const size_t *ends = MC_BUFFER_AT(&pieces->ends, size_t);
    size_t start = i ? ends[i - 1] : 0;
    return (mc_str){pieces->text.data + start, ends[i] - start};
}

void mc_pieces_deinit(mc_pieces *pieces) {
    mc_buffer_deinit(&pieces->text);
    mc_buffer_deinit(&pieces->ends);
}

/* Cutting a text at the matches of a pattern: spans come in order, a match or what is between. */
typedef struct cutter {
    split_behavior behavior;
    mc_str text;
    size_t start;  /* of the piece that is open */
    size_t end;    /* of the piece that is open; start where there is none */
    bool open_hit; /* the open piece ends in a match */
    mc_pieces *out;
} cutter;

static bool close_piece(cutter *c) {
    mc_str piece = {c->text.ptr + c->start, c->end - c->start};
    c->start = c->end;
    return mc_pieces_add(c->out, piece);
}

/* Takes the span [c->end, end). */
static bool cut(cutter *c, size_t end, bool hit) {
    if (end == c->end) return true;
    bool joins = false, opened = c->end > c->start;
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
    if (opened && !joins && !close_piece(c)) return false;
    c->end = end;
    c->open_hit = hit;
    if (hit && c->behavior == SPLIT_REMOVED) c->start = end;
    return true;
}

static bool split_at(mc_str text, mc_str pattern, split_behavior behavior, bool invert,
                     mc_pieces *out) {
    cutter c = {.behavior = behavior, .text = text, .out = out};
    while (c.end < text.len) {
        size_t hit = mc_find(text, pattern, c.end);
        if (!cut(&c, hit, invert)) return false;
        if (hit < text.len && !cut(&c, hit + pattern.len, !invert)) return false;
    }
    return close_piece(&c);
}

static mica_status split_parse(const mc_steps *steps, mc_json v, split_step *step) {
    mc_str name;
    MC_TRY(mc_steps_pattern(steps, v, &step->pattern));
    MC_TRY(mc_steps_bool(steps, v, "invert", &step->invert));
    MC_TRY(mc_steps_str(steps, v, "behavior", &name));
    for (size_t i = 0; i < sizeof behavior_names / sizeof *behavior_names; i++) {
        step->behavior = (split_behavior)i;
        if (mc_str_is(name, behavior_names[i])) return MICA_OK;
    }
    return mc_fail(MICA_EUNSUPPORTED, "%s: the split behavior '%.*s' is not supported",
                   steps->field, MC_STR_ARG(name));
}

static bool split_run(const split_step *step, mc_str text, bool at_start, mc_pieces *out) {
    (void)at_start;
    return split_at(text, step->pattern, step->behavior, step->invert, out);
}

static mica_status metaspace_parse(const mc_steps *steps, mc_json v, split_step *step) {
    step->split = true;
    MC_TRY(mc_steps_metaspace(steps, v, &step->pattern, &step->prepend));
    return mc_steps_bool(steps, v, "split", &step->split);
}

static bool metaspace_run(const split_step *step, mc_str text, bool at_start, mc_pieces *out) {
    mc_buffer spelled = {0};
    bool wanted =
        step->prepend == MC_PREPEND_ALWAYS || (step->prepend == MC_PREPEND_FIRST && at_start);
    bool ok = true;
    if (wanted && text.len > 0 && text.ptr[0] != ' ' && !mc_str_starts(text, step->pattern)) {
        ok = mc_buffer_add(&spelled, step->pattern.ptr, step->pattern.len);
    }
    ok = ok && mc_replace(text, MC_STR(" "), step->pattern, &spelled);
    mc_str whole = {spelled.data, spelled.len};
    if (ok && step->split) {
        ok = split_at(whole, step->pattern, SPLIT_MERGED_WITH_NEXT, false, out);
    } else if (ok) {
        ok = mc_pieces_add(out, whole);
    }
    mc_buffer_deinit(&spelled);
    return ok;
}

static const split_kind kinds[] = {
    {"Split", split_parse, split_run},
    {"Metaspace", metaspace_parse, metaspace_run},
};

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    mc_pretokenizer *p = steps->into;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        split_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        return mc_buffer_add(&p->steps, &step, sizeof step) ? MICA_OK
                                                            : mc_fail_nomem("pre_tokenizer");
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_pretokenizer_parse(mc_pretokenizer *p, mc_json v, mc_arena *arena) {
    return mc_steps_parse(&(mc_steps){"pre_tokenizer", "pretokenizers", arena, p, add}, v);
}

void mc_pretokenizer_deinit(mc_pretokenizer *p) {
    mc_buffer_deinit(&p->steps);
}

static bool run_step(const split_step *step, const mc_pieces *from, bool at_start, mc_pieces *to) {
    mc_buffer_clear(&to->text);
    mc_buffer_clear(&to->ends);
    if (!mc_buffer_reserve(&to->text, from->text.len)) return false;
    for (size_t i = 0; i < mc_pieces_count(from); i++) {
        if (!step->kind->run(step, mc_pieces_at(from, i), at_start && i == 0, to)) return false;
    }
    return true;
}

mica_status mc_pretokenize(const mc_pretokenizer *p, mc_str text, bool at_start,
                           mc_pieces scratch[2], const mc_pieces **out) {
    const split_step *steps = MC_BUFFER_AT(&p->steps, split_step);
    mc_pieces *from = &scratch[0], *to = &scratch[1];
    mc_buffer_clear(&from->text);
    mc_buffer_clear(&from->ends);
    if (!mc_pieces_add(from, text)) return mc_fail_nomem("pieces of text");
    for (size_t i = 0; i < MC_BUFFER_COUNT(&p->steps, split_step); i++) {
        if (!run_step(&steps[i], from, at_start, to)) return mc_fail_nomem("pieces of text");
        mc_pieces *last = from;
        from = to;
        to = last;
    }
    *out = from;
    return MICA_OK;
}

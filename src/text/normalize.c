#include "text/normalize.h"

#include "text/find.h"
#include "text/steps.h"

typedef struct normal_step {
    const struct normal_kind *kind;
    mc_str pattern;
    mc_str content;
} normal_step;

typedef struct normal_kind {
    const char *type;
    mica_status (*parse)(const mc_steps *steps, mc_json v, normal_step *step);
    bool (*run)(const normal_step *step, mc_str text, mc_buffer *out); /* false: no memory */
} normal_kind;

static mica_status replace_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    MC_TRY(mc_steps_pattern(steps, v, &step->pattern));
    return mc_steps_str(steps, v, "content", &step->content);
}

static bool replace_run(const normal_step *step, mc_str text, mc_buffer *out) {
    return mc_replace(text, step->pattern, step->content, out);
}

static mica_status prepend_parse(const mc_steps *steps, mc_json v, normal_step *step) {
    return mc_steps_str(steps, v, "prepend", &step->content);
}

static bool prepend_run(const normal_step *step, mc_str text, mc_buffer *out) {
    return text.len == 0 || (mc_buffer_add(out, step->content.ptr, step->content.len) &&
                             mc_buffer_add(out, text.ptr, text.len));
}

static const normal_kind kinds[] = {
    {"Replace", replace_parse, replace_run},
    {"Prepend", prepend_parse, prepend_run},
};

static mica_status add(const mc_steps *steps, mc_str type, mc_json v) {
    mc_normalizer *n = steps->into;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!mc_str_is(type, kinds[i].type)) continue;
        normal_step step = {.kind = &kinds[i]};
        MC_TRY(kinds[i].parse(steps, v, &step));
        return mc_buffer_add(&n->steps, &step, sizeof step) ? MICA_OK : mc_fail_nomem("normalizer");
    }
    return mc_steps_unknown(steps, type);
}

mica_status mc_normalizer_parse(mc_normalizer *n, mc_json v, mc_arena *arena) {
    return mc_steps_parse(&(mc_steps){"normalizer", "normalizers", arena, n, add}, v);
}

void mc_normalizer_deinit(mc_normalizer *n) {
    mc_buffer_deinit(&n->steps);
}

mica_status mc_normalize(const mc_normalizer *n, mc_str text, mc_buffer scratch[2], mc_str *out) {
    const normal_step *steps = MC_BUFFER_AT(&n->steps, normal_step);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&n->steps, normal_step); i++) {
        mc_buffer *to = &scratch[i % 2];
        mc_buffer_clear(to);
        if (!mc_buffer_reserve(to, text.len) || !steps[i].kind->run(&steps[i], text, to)) {
            return mc_fail_nomem("normalised text");
        }
        text = (mc_str){to->len ? to->data : "", to->len};
    }
    *out = text;
    return MICA_OK;
}

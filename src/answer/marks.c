#include "answer/marks.h"

#include "base/status.h"

typedef struct maker {
    mc_made_format *made;
    const mc_answer_format *format;
    bool failed; /* no memory */
} maker;

/* The literal of an answer; NULL for NULL. */
static const char *make(maker *m, const char *literal) {
    mc_buffer text = {0};
    const char *copy = NULL;
    if (!literal || m->failed) return NULL;
    if (mc_format_literal(m->format, literal, &text))
        copy = mc_arena_strndup(&m->made->arena, text.data ? text.data : "", text.len);
    m->failed = !copy;
    mc_buffer_deinit(&text);
    return copy;
}

static mc_call_syntax make_syntax(maker *m, const mc_call_syntax *s) {
    return (mc_call_syntax){.open = make(m, s->open),
                            .prefix = s->prefix,
                            .named = make(m, s->named),
                            .skips = s->skips,
                            .key = make(m, s->key),
                            .assign = make(m, s->assign),
                            .assign_text = make(m, s->assign_text),
                            .end = make(m, s->end),
                            .quote = make(m, s->quote),
                            .close = make(m, s->close)};
}

static void make_blocks(maker *m, const mc_call_format *calls) {
    mc_made_format *made = m->made;
    for (size_t i = 0; i < MC_CALL_BLOCKS && calls->blocks[i].begin; i++) {
        const mc_call_block *block = &calls->blocks[i];
        made->blocks[i] = *block;
        made->blocks[i].begin = make(m, block->begin);
        made->blocks[i].end = make(m, block->end);
        if (!block->syntax) continue;
        made->syntax[i] = make_syntax(m, block->syntax);
        made->blocks[i].syntax = &made->syntax[i];
    }
}

static void make_channels(maker *m, const mc_call_format *calls) {
    mc_made_format *made = m->made;
    const mc_channels *c = calls->channels;
    made->has_channels = true;
    made->channels = *c;
    made->channels.start = make(m, c->start);
    made->channels.channel = make(m, c->channel);
    made->channels.message = make(m, c->message);
    for (size_t i = 0; i < MC_CHANNEL_ENDS; i++)
        made->channels.ends[i] = make(m, c->ends[i]);
    made->syntax[0] = make_syntax(m, calls->syntax);
    made->content = (mc_call_block){.begin = "", .body = MC_CALLS_NAMED, .syntax = made->syntax};
}

mica_status mc_made_format_init(mc_made_format *made, const mc_answer_format *format) {
    maker m = {made, format, false};
    *made = (mc_made_format){.has_channels = false};
    make_blocks(&m, format->calls);
    if (format->calls->channels) make_channels(&m, format->calls);
    if (format->think_end) {
        const char *begin = make(&m, format->think_begin), *end = make(&m, format->think_end);
        made->think_begin = mc_str_of(begin ? begin : "");
        made->think_end = mc_str_of(end ? end : "");
    }
    return m.failed ? mc_fail_nomem("an answer") : MICA_OK;
}

void mc_made_format_deinit(mc_made_format *made) {
    mc_arena_deinit(&made->arena);
}

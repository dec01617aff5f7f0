#include "answer/splitter.h"

#include "answer/call_parse.h"
#include "answer/call_scan.h"
#include "answer/call_stream.h"
#include "base/alloc.h"
#include "text/find.h"

#include <string.h>

enum { MAX_HELD = 1 << 20 }; /* longer calls are text */

typedef enum part { PART_BEGIN, PART_THOUGHT, PART_TEXT, PART_CALLS } part;

struct mc_splitter {
    mc_answer_format format;
    const mc_tools *tools; /* NULL: none */
    mc_take_piece take;
    void *user;
    part part;
    mc_buffer held; /* of the answer, not handed out but for the first `gone` bytes */
    size_t gone;
    size_t space;    /* bytes known to be white space at the start of what is held */
    bool drop_space; /* white space that comes next is dropped */
    bool drop_mark;  /* and one think_begin: the prompt has it, the answer may have it again */
    bool some_text;  /* some text or call was handed out */
    bool ended;
    bool one_call;              /* only the first call is handed out */
    bool called;                /* it was */
    const mc_call_block *block; /* CALLS: what may be calls */
    size_t block_at;            /* where its mark is in `held`, behind white space */
    mc_calls calls;
    bool streams; /* calls come out while they are written */
    bool whole;   /* CALLS: what follows is read whole: */
    mc_call_scan scan;
    bool within;           /* a call has begun, and has not ended */
    bool muted;            /* it is dropped */
    mc_call_stream stream; /* CALLS, if they are streamed */
};

mica_status mc_splitter_open(const mc_answer_format *format, const mc_tools *tools, bool is_open,
                             mc_take_piece take, void *user, mc_splitter **out) {
    mc_splitter *s = *out = mc_calloc(1, sizeof *s);
    if (!s) return mc_fail_nomem("an answer");
    s->format = *format;
    s->tools = tools && MC_BUFFER_COUNT(&tools->list, mc_tool) ? tools : NULL;
    s->take = take;
    s->user = user;
    s->part = !format->think_end ? PART_TEXT : is_open ? PART_THOUGHT : PART_BEGIN;
    s->drop_space = s->drop_mark = s->part == PART_THOUGHT;
    return MICA_OK;
}

void mc_splitter_keep_one_call(mc_splitter *splitter) {
    splitter->one_call = true;
}

void mc_splitter_stream_calls(mc_splitter *splitter) {
    splitter->streams = true;
}

void mc_splitter_close(mc_splitter **splitter) {
    mc_splitter *s = *splitter;
    *splitter = NULL;
    if (!s) return;
    mc_buffer_deinit(&s->held);
    mc_calls_deinit(&s->calls);
    mc_call_stream_deinit(&s->stream);
    mc_free(s);
}

bool mc_splitter_is_thinking(const mc_splitter *splitter) {
    return splitter->part == PART_THOUGHT;
}

/* ---- what is held ---- */

static mc_str held(const mc_splitter *s) {
    return s->held.data ? (mc_str){s->held.data + s->gone, s->held.len - s->gone} : MC_STR("");
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static mc_str rest_of(mc_str text, size_t at) {
    return (mc_str){text.ptr + at, text.len - at};
}

/* How much white space what is held begins with; what is known of it is not looked at again. */
static size_t space_at_start(mc_splitter *s) {
    const mc_str text = held(s);
    while (s->space < text.len && is_space(text.ptr[s->space]))
        s->space++;
    return s->space;
}

/* The length of the first n bytes of what is held, without the white space at their end. */
static size_t without_space_at_end(mc_splitter *s, size_t n) {
    const mc_str text = held(s);
    if (n <= space_at_start(s)) return 0;
    while (is_space(text.ptr[n - 1]))
        n--;
    return n;
}

static void drop(mc_splitter *s, size_t n) {
    s->gone += n;
    s->space -= n < s->space ? n : s->space;
    if (s->gone <= s->held.len / 2) return; /* so that a byte is moved once at most */
    s->held.len -= s->gone;
    memmove(s->held.data, s->held.data + s->gone, s->held.len);
    s->gone = 0;
}

/* Hands out the first n bytes. */
static mica_status hand_out(mc_splitter *s, mc_piece_kind kind, size_t n) {
    if (!n) return MICA_OK;
    const mc_piece piece = {.kind = kind, .text = {held(s).ptr, n}};
    s->some_text = s->some_text || kind == MC_PIECE_TEXT;
    mica_status status = s->take(s->user, &piece);
    drop(s, n);
    return status;
}

/* How many bytes at the end may begin the mark. */
static size_t begun(mc_str text, mc_str mark) {
    size_t n = text.len < mark.len ? text.len : mark.len - 1;
    while (n && memcmp(text.ptr + text.len - n, mark.ptr, n) != 0)
        n--;
    return n;
}

/* ---- thoughts ---- */

/* Whether the answer begins with a thought. Returns whether that is known. */
static bool begin(mc_splitter *s) {
    const mc_str text = held(s), mark = mc_str_of(s->format.think_begin);
    size_t space = space_at_start(s);
    const mc_str rest = rest_of(text, space);
    if (mc_str_starts(rest, mark)) {
        drop(s, space + mark.len);
        s->part = PART_THOUGHT;
        s->drop_space = true;
        return true;
    }
    if (mc_str_starts(mark, rest) && !s->ended) return false;
    s->part = PART_TEXT;
    return true;
}

static mica_status think(mc_splitter *s, bool *more) {
    const mc_str mark = mc_str_of(s->format.think_end), first = mc_str_of(s->format.think_begin);
    if (s->drop_mark) {
        size_t space = space_at_start(s);
        const mc_str rest = rest_of(held(s), space);
        if (mc_str_starts(first, rest) && rest.len < first.len && !s->ended) return MICA_OK;
        drop(s, space + (mc_str_starts(rest, first) ? first.len : 0));
        s->drop_mark = false;
    }
    if (s->drop_space) {
        drop(s, space_at_start(s));
        if (!held(s).len) return MICA_OK;
        s->drop_space = false;
    }
    const mc_str text = held(s);
    size_t at = mc_find(text, mark, space_at_start(s));
    bool found = at < text.len;
    if (!found) at = text.len - begun(text, mark);
    if (s->ended && !found) at = text.len;
    size_t kept = without_space_at_end(s, at);
    MC_TRY(hand_out(s, MC_PIECE_THOUGHT, kept));
    if (s->ended && !found) {
        drop(s, at - kept);
    } else if (found) {
        drop(s, at - kept + mark.len);
        s->part = PART_TEXT;
        s->drop_space = *more = true;
    }
    return MICA_OK;
}

/* ---- text ---- */

/* The first block that begins in what is held, and where; NULL: none. */
static const mc_call_block *find_block(mc_splitter *s, size_t *at) {
    const mc_call_block *blocks = s->format.calls->blocks, *end = blocks + MC_CALL_BLOCKS;
    const mc_str text = held(s);
    size_t space = space_at_start(s);
    for (*at = space; *at < text.len; ++*at)
        for (const mc_call_block *b = blocks; b < end && b->begin; b++)
            if ((!b->first || (*at == space && !s->some_text)) &&
                mc_str_starts(rest_of(text, *at), mc_str_of(b->begin)))
                return b;
    return NULL;
}

/* How much of a text without a block can be handed out: what may begin one is held. */
static size_t settled(mc_splitter *s) {
    const mc_str text = held(s);
    size_t n = text.len;
    for (const mc_call_block *b = s->format.calls->blocks;
         b < s->format.calls->blocks + MC_CALL_BLOCKS && b->begin; b++) {
        size_t left = text.len - begun(text, mc_str_of(b->begin));
        if (!b->first && left < n) n = left;
    }
    return without_space_at_end(s, n);
}

static mica_status say(mc_splitter *s, bool *more) {
    size_t at;
    if (s->drop_space) {
        drop(s, space_at_start(s));
        if (!held(s).len) return MICA_OK;
        s->drop_space = false;
    }
    size_t all = held(s).len;
    if (!s->tools) return hand_out(s, MC_PIECE_TEXT, all);
    const mc_call_block *block = find_block(s, &at);
    if (!block) return hand_out(s, MC_PIECE_TEXT, s->ended ? all : settled(s));
    size_t kept = without_space_at_end(s, at);
    s->part = PART_CALLS;
    s->block = block;
    s->block_at = at - kept;
    s->whole = !s->streams;
    s->scan = mc_call_scan_of(block, false, false);
    mc_call_stream_deinit(&s->stream);
    s->stream = mc_call_stream_of(block, s->tools);
    *more = true;
    return hand_out(s, MC_PIECE_TEXT, kept);
}

/* ---- calls ---- */

/* Where the block goes on in what is held. */
static size_t body_of(const mc_splitter *s) {
    if (s->stream.begun) return 0; /* what came before was dropped */
    return s->block_at + (s->block->first ? 0 : strlen(s->block->begin));
}

/* The rest of the block is text: what begins it is handed out, and the rest looked at again. */
static mica_status give_up(mc_splitter *s, bool *more) {
    size_t n = s->stream.begun ? 0 : body_of(s) + s->block->first;
    s->part = PART_TEXT;
    *more = true;
    size_t all = held(s).len;
    return hand_out(s, MC_PIECE_TEXT, n < all ? n : all);
}

static mica_status hand_out_streamed(mc_splitter *s, mc_str name, mc_str arguments) {
    const mc_piece pieces[] = {{.kind = MC_PIECE_CALL_BEGIN, .name = name},
                               {.kind = MC_PIECE_CALL_TEXT, .text = arguments},
                               {.kind = MC_PIECE_CALL_END}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        MC_TRY(s->take(s->user, &pieces[i]));
    return MICA_OK;
}

static mica_status hand_out_calls(mc_splitter *s) {
    const mc_tool_call *list = MC_BUFFER_AT(&s->calls.list, mc_tool_call);
    for (size_t i = 0; i < MC_BUFFER_COUNT(&s->calls.list, mc_tool_call); i++) {
        const char *text = s->calls.text.data;
        const mc_piece piece = {.kind = MC_PIECE_CALL,
                                .text = {text + list[i].arguments, list[i].arguments_len},
                                .name = {text + list[i].name, list[i].name_len}};
        if (s->one_call && s->called) continue;
        s->called = true;
        MC_TRY(s->streams ? hand_out_streamed(s, piece.name, piece.text)
                          : s->take(s->user, &piece));
    }
    s->some_text = s->drop_space = true;
    return MICA_OK;
}

/* Reads what is a whole block, or the rest of one: that of a list has lost its bracket. */
static mica_status read_calls(mc_splitter *s, mc_str text, bool *good) {
    mc_buffer list = {0};
    mica_status status = MICA_OK;
    if (s->stream.in_list) {
        if (mc_buffer_add_byte(&list, '[') && mc_buffer_add(&list, text.ptr, text.len))
            text = (mc_str){list.data, list.len};
        else
            status = mc_fail_nomem("an answer");
    }
    if (status == MICA_OK) status = mc_calls_read(s->block->body, text, s->tools, &s->calls, good);
    mc_buffer_deinit(&list);
    return status;
}

static mica_status call(mc_splitter *s, bool *more) {
    const size_t body = body_of(s);
    mc_str text = rest_of(held(s), body);
    mc_call_extent extent;
    MC_TRY(mc_call_scan_next(&s->scan, text, &extent));
    if (extent == MC_CALLS_WAIT && !s->ended && held(s).len <= MAX_HELD) return MICA_OK;
    bool closed = extent == MC_CALLS_END, good = false;
    if (closed) text.len = s->scan.at;
    if (closed || (extent == MC_CALLS_WAIT && s->ended && mc_call_scan_may_end(&s->scan)))
        MC_TRY(read_calls(s, text, &good));
    if (!good) return give_up(s, more);
    drop(s, body + text.len + (closed ? strlen(s->block->end) : 0));
    s->part = PART_TEXT;
    *more = true;
    return hand_out_calls(s);
}

/* ---- calls that are streamed ---- */

static mica_status hand_out_part(mc_splitter *s, const mc_piece *piece) {
    if (piece->kind == MC_PIECE_CALL_BEGIN) {
        s->muted = s->one_call && s->called;
        s->called = s->some_text = s->within = true;
    } else if (piece->kind == MC_PIECE_CALL_END) {
        s->within = false;
    }
    return s->muted ? MICA_OK : s->take(s->user, piece);
}

/* What follows is no call: the one that has begun is not complete. */
static mica_status break_off(mc_splitter *s, bool *more) {
    const mc_piece end = {.kind = MC_PIECE_CALL_END, .broken = true};
    if (s->within) MC_TRY(hand_out_part(s, &end));
    s->drop_space = s->stream.begun;
    return give_up(s, more);
}

static mica_status stream_calls(mc_splitter *s, bool *more) {
    size_t body = body_of(s);
    mc_call_step step;
    MC_TRY(mc_call_stream_next(&s->stream, rest_of(held(s), body), s->ended, &step));
    const mc_piece pieces[] = {
        [MC_CALL_BEGINS] = {.kind = MC_PIECE_CALL_BEGIN, .name = step.text},
        [MC_CALL_TEXT] = {.kind = MC_PIECE_CALL_TEXT, .text = step.text},
        [MC_CALL_ENDS] = {.kind = MC_PIECE_CALL_END},
    };
    switch (step.event) {
    case MC_CALL_WAITS:
        if (!step.used && held(s).len > MAX_HELD) return break_off(s, more);
        break;
    case MC_CALL_WHOLE:
        s->whole = *more = true;
        s->scan = mc_call_scan_of(s->block, s->stream.begun, s->stream.in_list);
        break;
    case MC_CALL_BREAKS:
        drop(s, step.used);
        return break_off(s, more);
    case MC_CALL_CLOSES:
        s->part = PART_TEXT;
        s->drop_space = *more = true;
        break;
    default:
        *more = true;
        MC_TRY(hand_out_part(s, &pieces[step.event]));
        break;
    }
    if (step.used) {
        drop(s, step.event == MC_CALL_BEGINS ? body + step.used : step.used);
        *more = true;
    }
    return MICA_OK;
}

/* ---- all ---- */

static mica_status split_text(mc_splitter *s) {
    bool more = true;
    while (more) {
        more = false;
        switch (s->part) {
        case PART_BEGIN:
            more = begin(s);
            break;
        case PART_THOUGHT:
            MC_TRY(think(s, &more));
            break;
        case PART_TEXT:
            MC_TRY(say(s, &more));
            break;
        case PART_CALLS:
            MC_TRY(s->whole ? call(s, &more) : stream_calls(s, &more));
            break;
        }
    }
    return MICA_OK;
}

mica_status mc_splitter_push(mc_splitter *splitter, const char *text, size_t len) {
    if (!len || splitter->ended) return MICA_OK;
    if (!mc_buffer_add(&splitter->held, text, len)) return mc_fail_nomem("an answer");
    return split_text(splitter);
}

mica_status mc_splitter_end(mc_splitter *splitter) {
    if (splitter->ended) return MICA_OK;
    splitter->ended = true;
    return split_text(splitter);
}

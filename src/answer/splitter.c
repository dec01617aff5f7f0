#include "answer/splitter.h"

#include "answer/call_marked.h"
#include "answer/call_parse.h"
#include "answer/call_scan.h"
#include "answer/call_stream.h"
#include "answer/call_value.h"
#include "answer/marks.h"
#include "base/alloc.h"
#include "text/find.h"

#include <string.h>

enum {
    MAX_HELD = 1 << 20 /* longer calls are text */
};

typedef enum part {
    PART_BEGIN,
    PART_HEADER, /* of a message of a channel; only where the format has some */
    PART_THOUGHT,
    PART_TEXT,
    PART_CALLS
} part;

struct mc_splitter {
    mc_answer_format format;
    mc_made_format made;
    const mc_tools *tools; /* NULL: none */
    mc_take_piece take;
    void *user;
    part part;
    mc_buffer held; /* of the answer, not handed out but for the first `gone` bytes */
    size_t gone;
    mc_buffer late;  /* mc_str: marks whose tokens have come, and whose text was not all there */
    size_t late_at;  /* the first of them whose text is not there yet */
    mc_buffer begun; /* text that may begin that */
    size_t space;    /* bytes known to be white space at the start of what is held */
    bool drop_space; /* white space that comes next is dropped */
    bool drop_mark;  /* and one think_begin: the prompt has it, the answer may have it again */
    bool some_text;  /* some text or call was handed out */
    bool ended;
    bool one_call;              /* only the first call is handed out */
    bool called;                /* it was */
    const mc_call_block *block; /* CALLS: what may be calls */
    mc_call_block json;         /* a block that turned out to be in JSON */
    size_t block_at;            /* where its mark is in `held`, behind white space */
    size_t head;                /* bytes of the mark, or of the header of a message */
    size_t taken;               /* bytes behind these of a call that is kept until it is whole */
    size_t searched;            /* HEADER: bytes that are known to have no end of it */
    mc_calls calls;
    bool streams; /* calls come out while they are written */
    bool whole;   /* CALLS: what follows is read whole: */
    mc_call_scan scan;
    bool muted;            /* the call that is handed out now is dropped */
    mc_call_stream stream; /* CALLS */
};

/* Keeps of the blocks those that have no calls. */
static void leave_out_only(mc_made_format *made) {
    size_t kept = 0;
    for (size_t i = 0; i < MC_CALL_BLOCKS && made->blocks[i].begin; i++)
        if (made->blocks[i].body == MC_CALLS_NONE) made->blocks[kept++] = made->blocks[i];
    if (kept < MC_CALL_BLOCKS) made->blocks[kept].begin = NULL;
}

mica_status mc_splitter_open(const mc_answer_format *format, const mc_tools *tools, bool is_open,
                             mc_take_piece take, void *user, mc_splitter **out) {
    mc_splitter *s = *out = mc_calloc(1, sizeof *s);
    if (!s) return mc_fail_nomem("an answer");
    s->format = *format;
    s->tools = tools && MC_BUFFER_COUNT(&tools->list, mc_tool) ? tools : NULL;
    s->take = take;
    s->user = user;
    s->part = !format->think_end ? PART_TEXT : is_open ? PART_THOUGHT : PART_BEGIN;
    mica_status status = mc_made_format_init(&s->made, format);
    if (!s->tools) leave_out_only(&s->made);
    if (s->made.has_channels && s->part == PART_BEGIN) s->part = PART_HEADER;
    s->drop_space = s->drop_mark = s->part == PART_THOUGHT;
    if (status != MICA_OK) mc_splitter_close(out);
    return status;
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
    mc_buffer_deinit(&s->late);
    mc_buffer_deinit(&s->begun);
    mc_calls_deinit(&s->calls);
    mc_call_stream_deinit(&s->stream);
    mc_made_format_deinit(&s->made);
    mc_free(s);
}

bool mc_splitter_is_thinking(const mc_splitter *splitter) {
    return splitter->part == PART_THOUGHT;
}

/* ---- what is held ---- */

static mc_str held(const mc_splitter *s) {
    return s->held.data ? (mc_str){s->held.data + s->gone, s->held.len - s->gone} : MC_STR("");
}

/* How much white space what is held begins with; what is known of it is not looked at again. */
static size_t space_at_start(mc_splitter *s) {
    const mc_str text = held(s);
    while (s->space < text.len && mc_json_is_space(text.ptr[s->space]))
        s->space++;
    return s->space;
}

/* The length of the first n bytes of what is held, without the white space at their end. */
static size_t without_space_at_end(mc_splitter *s, size_t n) {
    const mc_str text = held(s);
    if (n <= space_at_start(s)) return 0;
    while (mc_json_is_space(text.ptr[n - 1]))
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

/* Hands out a text without the bytes that mark tokens: in parts. */
static mica_status give(mc_splitter *s, mc_piece_kind kind, mc_str text) {
    for (size_t from = 0, to; from < text.len; from = to + 1) {
        const mc_str rest = mc_str_from(text, from);
        const char *mark = memchr(rest.ptr, MC_MARK, rest.len);
        to = mark ? (size_t)(mark - text.ptr) : text.len;
        const mc_piece piece = {.kind = kind, .text = {rest.ptr, to - from}};
        if (piece.text.len) MC_TRY(s->take(s->user, &piece));
    }
    return MICA_OK;
}

/* Hands out the first n bytes. */
static mica_status hand_out(mc_splitter *s, mc_piece_kind kind, size_t n) {
    if (!n) return MICA_OK;
    s->some_text = s->some_text || kind == MC_PIECE_TEXT;
    mica_status status = give(s, kind, (mc_str){held(s).ptr, n});
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
    const mc_str text = held(s), mark = s->made.think_begin;
    size_t space = space_at_start(s);
    const mc_str rest = mc_str_from(text, space);
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

/* The first mark in what is held that ends a content, from a place on; *len: its length, 0: none.
 * *settled: how much surely comes before one. */
static size_t find_end(const mc_splitter *s, mc_str text, size_t from, size_t *len,
                       size_t *settled) {
    const mc_channels *c = &s->made.channels;
    size_t first = text.len;
    *len = 0;
    *settled = text.len;
    const bool one = !s->made.has_channels;
    for (size_t i = 0; one ? i < 1 : i < MC_CHANNEL_ENDS && c->ends[i]; i++) {
        const mc_str mark = one ? s->made.think_end : mc_str_of(c->ends[i]);
        size_t at = mc_find((mc_str){text.ptr, first}, mark, from),
               left = text.len - begun(text, mark);
        if (left < *settled) *settled = left;
        if (at == first) continue;
        first = at;
        *len = mark.len;
    }
    return first;
}

/* Goes on behind a content that ends at the beginning of what is held. */
static void end_content(mc_splitter *s, size_t len) {
    const mc_channels *c = &s->made.channels;
    const mc_str text = held(s);
    bool header = s->made.has_channels && (mc_str_starts(text, mc_str_of(c->start)) ||
                                           mc_str_starts(text, mc_str_of(c->channel)));
    if (!header) drop(s, len);
    s->part = s->made.has_channels ? PART_HEADER : PART_TEXT;
    s->searched = 0;
    s->drop_space = !s->made.has_channels;
}

static mica_status think(mc_splitter *s, bool *more) {
    const mc_str first = s->made.think_begin;
    if (s->drop_mark) {
        size_t space = space_at_start(s);
        const mc_str rest = mc_str_from(held(s), space);
        if (mc_str_starts(first, rest) && rest.len < first.len && !s->ended) return MICA_OK;
        drop(s, space + (mc_str_starts(rest, first) ? first.len : 0));
        s->drop_mark = false;
    }
    if (s->drop_space) {
        drop(s, space_at_start(s));
        if (!held(s).len) return MICA_OK;
        s->drop_space = false;
    }
    size_t len, settled, at = find_end(s, held(s), space_at_start(s), &len, &settled);
    if (!len) at = s->ended ? held(s).len : settled;
    size_t kept = without_space_at_end(s, at);
    MC_TRY(hand_out(s, MC_PIECE_THOUGHT, kept));
    if (s->ended || len) drop(s, at - kept);
    if (!len) return MICA_OK;
    end_content(s, len);
    *more = true;
    return MICA_OK;
}

/* ---- text ---- */

/* The first block that begins in what is held, and where; NULL: none. */
static const mc_call_block *find_block(mc_splitter *s, size_t *at) {
    const mc_call_block *blocks = s->made.blocks, *end = blocks + MC_CALL_BLOCKS;
    const mc_str text = held(s);
    size_t space = space_at_start(s);
    for (*at = space; *at < text.len; ++*at)
        for (const mc_call_block *b = blocks; b < end && b->begin; b++)
            if ((!b->first || (*at == space && !s->some_text)) &&
                mc_str_starts(mc_str_from(text, *at), mc_str_of(b->begin)))
                return b;
    return NULL;
}

/* How much of a text without a block can be handed out: what may begin one is held. */
static size_t settled(mc_splitter *s) {
    const mc_str text = held(s);
    size_t n = text.len;
    for (const mc_call_block *b = s->made.blocks; b < s->made.blocks + MC_CALL_BLOCKS && b->begin;
         b++) {
        size_t left = text.len - begun(text, mc_str_of(b->begin));
        if (!b->first && left < n) n = left;
    }
    return without_space_at_end(s, n);
}

/* Begins to read what may be calls, from `at` on, behind `head` bytes. */
static void begin_calls(mc_splitter *s, const mc_call_block *block, size_t at, size_t head) {
    s->part = PART_CALLS;
    s->block = block;
    s->block_at = at;
    s->head = head;
    s->taken = 0;
    s->whole = false;
    mc_call_stream_deinit(&s->stream);
    s->stream = mc_call_stream_of(block, s->tools);
}

/* The text of a message of a channel. */
static mica_status say_content(mc_splitter *s, bool *more) {
    size_t len, settled, at = find_end(s, held(s), 0, &len, &settled);
    if (!len) return hand_out(s, MC_PIECE_TEXT, s->ended ? held(s).len : settled);
    MC_TRY(hand_out(s, MC_PIECE_TEXT, at));
    end_content(s, len);
    *more = true;
    return MICA_OK;
}

static mica_status say(mc_splitter *s, bool *more) {
    size_t at;
    if (s->drop_space) {
        drop(s, space_at_start(s));
        if (!held(s).len) return MICA_OK;
        s->drop_space = false;
    }
    if (s->made.has_channels) return say_content(s, more);
    size_t all = held(s).len;
    if (!s->made.blocks->begin) return hand_out(s, MC_PIECE_TEXT, all);
    const mc_call_block *block = find_block(s, &at);
    if (!block) return hand_out(s, MC_PIECE_TEXT, s->ended ? all : settled(s));
    size_t kept = without_space_at_end(s, at);
    *more = true;
    if (block->body == MC_CALLS_NONE) {
        MC_TRY(hand_out(s, MC_PIECE_TEXT, kept));
        drop(s, at - kept + strlen(block->begin));
        s->drop_space = true;
        return MICA_OK;
    }
    begin_calls(s, block, at - kept, block->first ? 0 : strlen(block->begin));
    return hand_out(s, MC_PIECE_TEXT, kept);
}

/* ---- calls ---- */

/* Where the block goes on in what is held. */
static size_t body_of(const mc_splitter *s) {
    return s->block_at + s->head + s->taken;
}

/* The next n bytes, and what was kept before them, are text; what follows is looked at anew. */
static mica_status give_up(mc_splitter *s, size_t n, bool *more) {
    n += body_of(s) + (s->block->first && !s->stream.begun);
    s->drop_space = s->stream.begun && !n;
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
    mc_buffer plain = {0};
    if (s->block->body == MC_CALLS_PYTHON && !s->stream.in_list) /* which knows the marks' byte */
        return mc_calls_read(MC_CALLS_PYTHON, text, s->tools, &s->calls, good);
    bool done =
        (!s->stream.in_list || mc_buffer_add_byte(&plain, '[')) && mc_call_text_add(text, &plain);
    mica_status status = done ? MICA_OK : mc_fail_nomem("an answer");
    if (done)
        status = mc_calls_read(s->block->body, (mc_str){plain.data ? plain.data : "", plain.len},
                               s->tools, &s->calls, good);
    mc_buffer_deinit(&plain);
    return status;
}

static mica_status call(mc_splitter *s, bool *more) {
    const size_t body = body_of(s);
    mc_str text = mc_str_from(held(s), body);
    mc_call_extent extent;
    MC_TRY(mc_call_scan_next(&s->scan, text, &extent));
    if (extent == MC_CALLS_WAIT && !s->ended && held(s).len <= MAX_HELD) return MICA_OK;
    bool closed = extent == MC_CALLS_END, good = false;
    if (closed) text.len = s->scan.at;
    if (closed || (extent == MC_CALLS_WAIT && s->ended && mc_call_scan_may_end(&s->scan)))
        MC_TRY(read_calls(s, text, &good));
    if (!good) return give_up(s, 0, more);
    drop(s, body + text.len + (closed ? strlen(s->block->end) : 0));
    s->part = PART_TEXT;
    *more = true;
    return hand_out_calls(s);
}

/* ---- calls as they come ---- */

static mica_status hand_out_part(mc_splitter *s, const mc_piece *piece) {
    if (piece->kind == MC_PIECE_CALL_BEGIN) {
        s->muted = s->one_call && s->called;
        s->called = s->some_text = true;
    }
    if (s->muted) return MICA_OK;
    if (piece->kind == MC_PIECE_CALL_TEXT) return give(s, piece->kind, piece->text);
    return s->take(s->user, piece);
}

/* Keeps a part of a call that is handed out when it is whole. */
static mica_status keep_part(mc_splitter *s, const mc_call_step *step) {
    mc_calls *calls = &s->calls;
    if (step->event == MC_CALL_ENDS) return hand_out_calls(s);
    if (step->event == MC_CALL_BEGINS) {
        const mc_tool_call call = {.name_len = step->text.len};
        mc_buffer_clear(&calls->list);
        mc_buffer_clear(&calls->text);
        if (!mc_buffer_add(&calls->list, &call, sizeof call)) return mc_fail_nomem("an answer");
    }
    if (!mc_call_text_add(step->text, &calls->text)) return mc_fail_nomem("an answer");
    mc_tool_call *call = MC_BUFFER_AT(&calls->list, mc_tool_call);
    if (step->event == MC_CALL_BEGINS) call->arguments = step->text.len;
    call->arguments_len = calls->text.len - call->arguments;
    return MICA_OK;
}

static mica_status take_part(mc_splitter *s, const mc_call_step *step) {
    const mc_piece pieces[] = {
        [MC_CALL_BEGINS] = {.kind = MC_PIECE_CALL_BEGIN, .name = step->text},
        [MC_CALL_TEXT] = {.kind = MC_PIECE_CALL_TEXT, .text = step->text},
        [MC_CALL_ENDS] = {.kind = MC_PIECE_CALL_END},
    };
    return s->streams ? hand_out_part(s, &pieces[step->event]) : keep_part(s, step);
}

/* Bytes of the answer that a step has read are gone, or are kept for the case that the call
 * breaks. */
static void use(mc_splitter *s, size_t n) {
    if (!s->streams && s->stream.part == MC_CALL_ARGUMENTS) {
        s->taken += n;
        return;
    }
    drop(s, body_of(s) + n);
    s->block_at = s->head = s->taken = 0;
}

/* What follows is no call: what was kept of one is text, and so are the next `used` bytes, but for
 * what stands between two calls in JSON or Python. */
static mica_status break_off(mc_splitter *s, size_t used, bool *more) {
    const mc_piece end = {.kind = MC_PIECE_CALL_END, .broken = true};
    if (s->streams && s->stream.part == MC_CALL_ARGUMENTS) MC_TRY(hand_out_part(s, &end));
    if (s->block->syntax) return give_up(s, used, more);
    drop(s, used);
    return give_up(s, 0, more);
}

/* The same of all that the answer has: none of it is read again. */
static mica_status break_all(mc_splitter *s, bool *more) {
    MC_TRY(break_off(s, 0, more));
    if (s->drop_space) drop(s, space_at_start(s));
    return hand_out(s, MC_PIECE_TEXT, held(s).len);
}

static mica_status read_as_it_comes(mc_splitter *s, bool *more) {
    mc_call_step step;
    const mc_str text = mc_str_from(held(s), body_of(s));
    MC_TRY((s->block->syntax ? mc_call_marked_next : mc_call_stream_next)(&s->stream, text,
                                                                          s->ended, &step));
    bool some = step.event >= MC_CALL_BEGINS && step.event <= MC_CALL_ENDS,
         closes = step.event == MC_CALL_CLOSES, whole = step.event == MC_CALL_WHOLE;
    if (step.event == MC_CALL_BREAKS) return break_off(s, step.used, more);
    *more = some || closes || whole || step.used;
    if (step.event == MC_CALL_CUT || (!*more && held(s).len > MAX_HELD)) return break_all(s, more);
    if (some) MC_TRY(take_part(s, &step));
    if (closes) {
        s->part = PART_TEXT;
        s->drop_space = true;
    }
    if (whole) {
        s->whole = true;
        s->scan = mc_call_scan_of(s->block, s->stream.begun, s->stream.in_list);
    }
    if (some || closes || step.used) use(s, step.used);
    return MICA_OK;
}

/* Finds out whether a block is in JSON, by its first bracket. Returns whether that is known. */
static bool is_json_known(mc_splitter *s) {
    enum { MAX_SPACE = 512 };
    const mc_str text = mc_str_from(held(s), body_of(s));
    size_t at = 0;
    if (!s->block->or_json || s->stream.begun) return true;
    while (at < text.len && at < MAX_SPACE && mc_json_is_space(text.ptr[at]))
        at++;
    if (at == text.len) return s->ended;
    if (at == MAX_SPACE || (text.ptr[at] != '[' && text.ptr[at] != '{')) return true;
    s->json = *s->block;
    s->json.body = MC_CALLS_JSON;
    s->json.syntax = NULL;
    s->json.or_json = false;
    begin_calls(s, &s->json, s->block_at, s->head);
    return true;
}

static mica_status read_block(mc_splitter *s, bool *more) {
    if (!is_json_known(s)) return MICA_OK;
    return s->whole ? call(s, more) : read_as_it_comes(s, more);
}

/* ---- messages of channels ---- */

/* Whether what is held begins as a header does. *may: it may yet. */
static bool begins_header(mc_splitter *s, bool *may) {
    const mc_channels *c = &s->made.channels;
    const char *const first[] = {c->channel, c->start, c->message, c->recipient};
    const mc_str rest = mc_str_from(held(s), space_at_start(s));
    *may = false;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        const mc_str mark = mc_str_of(first[i]);
        if (mc_str_starts(rest, mark)) return true;
        *may = *may || mc_str_starts(mark, rest);
    }
    return false;
}

/* The word of a header behind a mark, up to white space or the next mark; len 0: there is none. */
static mc_str word_behind(mc_str header, const char *mark) {
    size_t at = mc_find(header, mc_str_of(mark), 0), to;
    if (at == header.len) return (mc_str){"", 0};
    at += strlen(mark);
    while (at < header.len && mc_json_is_space(header.ptr[at]))
        at++;
    for (to = at; to < header.len && !mc_json_is_space(header.ptr[to]) && header.ptr[to] != '<' &&
                  (unsigned char)header.ptr[to] != MC_MARK;)
        to++;
    return (mc_str){header.ptr + at, to - at};
}

/* The tool that a message goes to; NULL: none of the request's. */
static const mc_tool *recipient_of(const mc_splitter *s, mc_str header) {
    mc_str name = word_behind(header, s->made.channels.recipient);
    const mc_str prefix = mc_str_of(s->made.syntax[0].prefix);
    if (!s->tools || !name.len) return NULL;
    if (mc_str_starts(name, prefix)) name = mc_str_from(name, prefix.len);
    return mc_tools_find(s->tools, name);
}

/* Begins the content behind a header of `head` bytes, its last mark included. */
static mica_status begin_content(mc_splitter *s, mc_str header, size_t head) {
    const mc_channels *c = &s->made.channels;
    const mc_tool *tool = recipient_of(s, header);
    bool thinks = mc_str_is(word_behind(header, c->channel), c->thoughts);
    if (tool) {
        begin_calls(s, &s->made.content, 0, head);
        mc_call_marked_begin(&s->stream, tool);
        use(s, 0);
        return take_part(s, &(mc_call_step){.event = MC_CALL_BEGINS, .text = tool->name});
    }
    s->part = thinks ? PART_THOUGHT : PART_TEXT;
    s->drop_space = thinks;
    if (!thinks && word_behind(header, c->recipient).len) /* a call of no tool is text */
        return hand_out(s, MC_PIECE_TEXT, head);
    drop(s, head);
    return MICA_OK;
}

static mica_status read_header(mc_splitter *s, bool *more) {
    enum { MAX_HEADER = 512 };
    const mc_str text = held(s), mark = mc_str_of(s->made.channels.message);
    const mc_str near = {text.ptr, text.len < MAX_HEADER ? text.len : MAX_HEADER};
    bool may, header = begins_header(s, &may);
    if (!header && may && !s->ended) return MICA_OK;
    size_t at = header ? mc_find(near, mark, s->searched) : near.len;
    if (at < near.len) {
        *more = true;
        return begin_content(s, (mc_str){text.ptr, at}, at + mark.len);
    }
    s->searched = near.len >= mark.len ? near.len - mark.len + 1 : 0;
    if (header && text.len < MAX_HEADER && !s->ended) return MICA_OK;
    if (header && text.len < MAX_HEADER) { /* it is cut: nothing was said */
        drop(s, text.len);
        return MICA_OK;
    }
    s->part = PART_TEXT;
    *more = true;
    return hand_out(s, MC_PIECE_TEXT, header ? near.len : 0);
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
        case PART_HEADER:
            MC_TRY(read_header(s, &more));
            break;
        case PART_THOUGHT:
            MC_TRY(think(s, &more));
            break;
        case PART_TEXT:
            MC_TRY(say(s, &more));
            break;
        case PART_CALLS:
            MC_TRY(read_block(s, &more));
            break;
        }
    }
    return MICA_OK;
}

mica_status mc_splitter_push(mc_splitter *splitter, const char *text, size_t len) {
    return mc_splitter_push_token(splitter, -1, text, len);
}

/* Adds a text; MC_MARK in it is no one's text. */
static bool hold(mc_splitter *s, mc_str text) {
    return mc_call_text_add(text, &s->held);
}

static bool hold_mark(mc_splitter *s, mc_str mark) {
    return mc_buffer_add_byte(&s->held, (char)MC_MARK) &&
           mc_buffer_add(&s->held, mark.ptr, mark.len);
}

/* Adds the text that might have begun a late mark: its text does not come any more. */
static bool hold_begun(mc_splitter *s) {
    bool done = !s->begun.len || hold(s, (mc_str){s->begun.data, s->begun.len});
    s->begun.len = s->late.len = s->late_at = 0;
    return done;
}

/* Adds a text that may have marks whose tokens came before: stop strings held their text back, or
 * the end of it. */
static bool hold_late(mc_splitter *s, mc_str text) {
    const size_t count = MC_BUFFER_COUNT(&s->late, mc_str);
    if (s->late_at == count) return hold(s, text);
    if (!mc_buffer_add(&s->begun, text.ptr, text.len)) return false;
    mc_str rest = {s->begun.data ? s->begun.data : "", s->begun.len};
    for (; s->late_at < count; s->late_at++) {
        const mc_str mark = MC_BUFFER_AT(&s->late, mc_str)[s->late_at];
        size_t at = mc_find(rest, mark, 0);
        if (at == rest.len) break;
        if (!hold(s, (mc_str){rest.ptr, at}) || !hold_mark(s, mark)) return false;
        rest = mc_str_from(rest, at + mark.len);
    }
    size_t kept = s->late_at < count ? begun(rest, MC_BUFFER_AT(&s->late, mc_str)[s->late_at]) : 0;
    if (!hold(s, (mc_str){rest.ptr, rest.len - kept})) return false;
    if (kept) memmove(s->begun.data, rest.ptr + rest.len - kept, kept);
    s->begun.len = kept;
    if (s->late_at == count) s->late_at = s->late.len = 0;
    return true;
}

/* Adds the text of a token that is a mark. */
static bool hold_token(mc_splitter *s, mc_str mark, bool special, mc_str text) {
    bool late = s->late_at < MC_BUFFER_COUNT(&s->late, mc_str);
    if (!special && (late || !mc_str_ends(text, mark)))
        return mc_buffer_add(&s->late, &mark, sizeof mark) && hold_late(s, text);
    if (mc_str_ends(text, mark)) text.len -= mark.len;
    return hold_late(s, text) && hold_begun(s) && hold_mark(s, mark);
}

mica_status mc_splitter_push_token(mc_splitter *splitter, int32_t id, const char *text,
                                   size_t len) {
    bool special = false;
    const mc_str mark = mc_answer_mark_of(&splitter->format, id, &special);
    const mc_str said = {text, len};
    if ((!len && !mark.len) || splitter->ended) return MICA_OK;
    bool done = mark.len ? hold_token(splitter, mark, special, said) : hold_late(splitter, said);
    return done ? split_text(splitter) : mc_fail_nomem("an answer");
}

mica_status mc_splitter_end(mc_splitter *splitter) {
    if (splitter->ended) return MICA_OK;
    splitter->ended = true;
    return hold_begun(splitter) ? split_text(splitter) : mc_fail_nomem("an answer");
}

/* Input: a byte for the format of calls, and an answer as a model may write it. It becomes events
 * as clients of three APIs get them, Anthropic's messages, OpenAI's chats and responses, which are
 * read as the standard says (WHATWG, server-sent events): each event has one line of data, an
 * object whose type is the event's name, if it has one, and together they say what the answer does.
 * Whole calls also go into lines of JSON, as ollama's clients get them. */
#include "answer/splitter.h"
#include "base/alloc.h"
#include "base/utf8.h"
#include "serve/anthropic/blocks.h"
#include "serve/openai/delta.h"
#include "serve/openai/response_output.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"get_weather\"}}]";

static void must(bool truth) {
    if (!truth) abort();
}

typedef struct answer answer;

/* An API: how a part of an answer is written, and its end, and what an event says. */
typedef struct api {
    bool streams, named;
    bool (*write)(answer *a, const mc_piece *piece);
    bool (*end)(answer *a);
    bool (*read)(answer *a, mc_json event); /* adds it to `read`; NULL: there are no events */
} api;

struct answer {
    const api *api;
    mc_exchange *http;
    mc_anthropic_blocks blocks;
    mc_response_output output;
    mc_buffer line, logprobs;
    size_t calls;   /* of a chat, that were written */
    int64_t call;   /* that was read last, -1: none */
    mc_buffer said; /* texts of all kinds, and arguments of calls */
    mc_buffer read; /* the same, of the events */
    size_t item;    /* where the item begins there */
    bool is_text;   /* the answer is UTF-8 */
};

static bool add(mc_buffer *to, mc_str text) {
    return mc_buffer_add(to, text.ptr, text.len);
}

static mc_str text_of(mc_json value, const char *member) {
    mc_str text = MC_STR("");
    mc_json_get_str(mc_json_find(value, member), &text);
    return text;
}

/* ---- ollama's lines ---- */

/* A call as a member of a line. */
static bool write_line(answer *a, const mc_piece *piece) {
    mc_json_doc *doc = NULL;
    if (piece->kind != MC_PIECE_CALL) return true;
    mc_buffer_clear(&a->line);
    mc_put put = mc_put_into(&a->line);
    mc_put_open(&put, NULL, '{');
    mc_put_str(&put, "name", piece->name);
    mc_put_raw(&put, "arguments", piece->text);
    mc_put_close(&put, '}');
    if (put.failed) return false;
    must(!memchr(a->line.data, '\n', a->line.len) && !memchr(a->line.data, '\r', a->line.len));
    mica_status status = mc_json_parse(a->line.data, a->line.len, "line", &doc);
    mc_json_close(&doc);
    must(status == MICA_OK || status == MICA_ENOMEM);
    return status == MICA_OK;
}

static bool end_lines(answer *a) {
    (void)a;
    return true;
}

/* ---- Anthropic's messages ---- */

static bool write_block(answer *a, const mc_piece *piece) {
    switch (piece->kind) {
    case MC_PIECE_TEXT:
        return mc_anthropic_blocks_add(&a->blocks, MC_BLOCK_TEXT, piece->text);
    case MC_PIECE_THOUGHT:
        return mc_anthropic_blocks_add(&a->blocks, MC_BLOCK_THINKING, piece->text);
    case MC_PIECE_CALL: /* of a splitter that does not stream them */
        break;
    case MC_PIECE_CALL_BEGIN:
        return mc_anthropic_blocks_begin_call(&a->blocks, piece->name);
    case MC_PIECE_CALL_TEXT:
        return mc_anthropic_blocks_add(&a->blocks, MC_BLOCK_TOOL_USE, piece->text);
    case MC_PIECE_CALL_END:
        return mc_anthropic_blocks_end(&a->blocks);
    }
    return false;
}

static bool end_blocks(answer *a) {
    return mc_anthropic_blocks_end(&a->blocks);
}

static bool read_block(answer *a, mc_json event) {
    static const char *const members[] = {"text", "thinking", "partial_json"};
    mc_json delta = mc_json_find(event, "delta");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!add(&a->read, text_of(delta, members[i]))) return false;
    return true;
}

/* ---- OpenAI's chats ---- */

static bool write_delta(answer *a, const mc_piece *piece) {
    if (piece->kind == MC_PIECE_CALL_END) return true;
    mc_buffer_clear(&a->line);
    mc_put put = mc_put_into(&a->line);
    mc_put_open(&put, NULL, '{');
    mc_openai_put_delta(&put, &(mc_openai_delta){.piece = piece}, &a->calls);
    mc_put_close(&put, '}');
    return !put.failed && mc_exchange_event(a->http, NULL, a->line.data, a->line.len);
}

/* The first delta of a call has all but its arguments, the others these. */
static void check_call(answer *a, mc_json call) {
    int64_t index = -1;
    mc_json function = mc_json_find(call, "function");
    must(mc_json_get_int(mc_json_find(call, "index"), &index));
    bool first = index == a->call + 1;
    must(first || index == a->call);
    must((text_of(call, "id").len > 0) == first);
    must((text_of(function, "name").len > 0) == first);
    must((text_of(function, "arguments").len == 0) == first);
    a->call = index;
}

static bool read_delta(answer *a, mc_json event) {
    mc_json delta = mc_json_find(event, "delta");
    for (mc_json_iter it = mc_json_begin(mc_json_find(delta, "tool_calls")); mc_json_next(&it);) {
        check_call(a, it.value);
        if (!add(&a->read, text_of(mc_json_find(it.value, "function"), "arguments"))) return false;
    }
    return add(&a->read, text_of(delta, "content")) &&
           add(&a->read, text_of(delta, "reasoning_content"));
}

/* ---- OpenAI's responses ---- */

static bool write_item(answer *a, const mc_piece *piece) {
    switch (piece->kind) {
    case MC_PIECE_TEXT:
        return mc_response_output_add(&a->output, MC_OUTPUT_MESSAGE, piece->text, &a->logprobs);
    case MC_PIECE_THOUGHT:
        return mc_response_output_add(&a->output, MC_OUTPUT_REASONING, piece->text, &a->logprobs);
    case MC_PIECE_CALL: /* of a splitter that does not stream them */
        break;
    case MC_PIECE_CALL_BEGIN:
        return mc_response_output_begin_call(&a->output, piece->name);
    case MC_PIECE_CALL_TEXT:
        return mc_response_output_more(&a->output, piece->text);
    case MC_PIECE_CALL_END:
        return mc_response_output_end(&a->output, piece->broken);
    }
    return false;
}

static bool end_items(answer *a) {
    return mc_response_output_end(&a->output, false);
}

/* The end of an item has what its deltas add up to. */
static bool read_item(answer *a, mc_json event) {
    mc_str type = text_of(event, "type"), whole;
    if (mc_str_is(type, "response.output_item.added")) a->item = a->read.len;
    if (mc_str_ends(type, MC_STR(".delta"))) return add(&a->read, text_of(event, "delta"));
    bool text = mc_str_ends(type, MC_STR("_text.done"));
    if (text || mc_str_ends(type, MC_STR("_arguments.done"))) {
        whole = text_of(event, text ? "text" : "arguments");
        size_t len = a->read.len - a->item;
        must(!a->is_text ||
             (whole.len == len && (!len || memcmp(whole.ptr, a->read.data + a->item, len) == 0)));
    }
    return true;
}

static const api apis[] = {{false, false, write_line, end_lines, NULL},
                           {true, true, write_block, end_blocks, read_block},
                           {true, false, write_delta, end_lines, read_delta},
                           {true, true, write_item, end_items, read_item}};

/* ---- writing ---- */

static mica_status take(void *user, const mc_piece *piece) {
    answer *a = user;
    return add(&a->said, piece->text) && a->api->write(a, piece) ? MICA_OK : MICA_ENOMEM;
}

static bool write(const mc_answer_format *format, bool is_open, mc_str text, answer *a) {
    mc_tools tools;
    mc_splitter *s = NULL;
    mica_status status = mc_tools_read(tools_text, sizeof tools_text - 1, &tools);
    must(status == MICA_OK || status == MICA_ENOMEM);
    bool done =
        status == MICA_OK && mc_splitter_open(format, &tools, is_open, take, a, &s) == MICA_OK;
    if (done && a->api->streams) mc_splitter_stream_calls(s);
    done = done && mc_splitter_push(s, text.ptr, text.len) == MICA_OK &&
           mc_splitter_end(s) == MICA_OK && a->api->end(a);
    mc_splitter_close(&s);
    mc_tools_deinit(&tools);
    return done;
}

/* ---- reading ---- */

/* A line ends at "\r\n", "\n" or "\r". false: there is none, or only a part of one. */
static bool take_line(mc_str *rest, mc_str *line) {
    size_t n = 0;
    while (n < rest->len && rest->ptr[n] != '\n' && rest->ptr[n] != '\r')
        n++;
    if (n == rest->len) return false;
    *line = (mc_str){rest->ptr, n};
    n += rest->ptr[n] == '\r' && n + 1 < rest->len && rest->ptr[n + 1] == '\n';
    *rest = (mc_str){rest->ptr + n + 1, rest->len - n - 1};
    return true;
}

/* Adds what an event says. */
static bool read_data(answer *a, mc_str name, mc_str text) {
    mc_json_doc *doc = NULL;
    mica_status status = mc_json_parse(text.ptr, text.len, "event", &doc);
    must(status == MICA_OK || status == MICA_ENOMEM);
    if (status != MICA_OK) return false;
    must(mc_str_eq(text_of(mc_json_root(doc), "type"), name));
    bool done = a->api->read(a, mc_json_root(doc));
    mc_json_close(&doc);
    return done;
}

static bool read(answer *a, mc_str stream) {
    mc_str line, name = MC_STR(""), text = {NULL, 0};
    while (take_line(&stream, &line)) {
        if (!line.len) { /* the end of an event */
            must((name.len > 0) == a->api->named && text.len > 0);
            if (!read_data(a, name, text)) return false;
            name = MC_STR("");
            text = (mc_str){NULL, 0};
        } else if (mc_str_starts(line, MC_STR("event: "))) {
            must(!name.len);
            name = (mc_str){line.ptr + 7, line.len - 7};
        } else {
            must(mc_str_starts(line, MC_STR("data: ")) && !text.ptr);
            text = (mc_str){line.ptr + 6, line.len - 6};
        }
    }
    must(!stream.len && !name.len && !text.ptr);
    return true;
}

static void run(const api *with, const mc_answer_format *format, bool is_open, mc_str text) {
    answer a = {.api = with, .call = -1, .is_text = mc_utf8_valid(text.ptr, text.len)};
    a.http = mc_exchange_new(NULL, "POST", "/");
    if (!a.http) return;
    a.http->connection = a.http; /* it is there, and never suspended */
    a.blocks.stream = a.output.stream = a.http;
    if (write(format, is_open, text, &a) && with->read &&
        read(&a, (mc_str){a.http->out.data, a.http->out.len}) && a.is_text) {
        must(a.read.len == a.said.len);
        must(!a.read.len || memcmp(a.read.data, a.said.data, a.said.len) == 0);
    }
    mc_anthropic_blocks_deinit(&a.blocks);
    mc_response_output_deinit(&a.output);
    mc_buffer_deinit(&a.line);
    mc_buffer_deinit(&a.said);
    mc_buffer_deinit(&a.read);
    mc_exchange_free(a.http);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t count = 0;
    if (size < 2) return 0;
    while (mc_call_format_at(count))
        count++;
    bool thinks = data[0] & 128, is_open = data[0] & 64;
    const mc_answer_format format = {.calls = mc_call_format_at((data[0] & 63) % count),
                                     .think_begin = thinks ? "<think>" : NULL,
                                     .think_end = thinks ? "</think>" : NULL};
    mc_str text = {(const char *)data + 1, size - 1};
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        run(&apis[i], &format, is_open, text);
        mc_alloc_fail_at(1 + data[size - 1] % 64);
        run(&apis[i], &format, is_open, text);
        mc_alloc_fail_at(0);
    }
    return 0;
}

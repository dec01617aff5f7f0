/* Input: a byte for the format of calls, and an answer as a model may write it. It becomes events
 * as a client of Anthropic's API gets them, which are read as the standard says (WHATWG,
 * server-sent events): each event has one line of data, an object whose type is the event's name,
 * and together they say what the answer does. Calls also go into lines of JSON, as ollama's clients
 * get them. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/splitter.h"
#include "serve/anthropic_blocks.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"get_weather\"}}]";

static void must(bool truth) {
    if (!truth) abort();
}

typedef struct answer {
    mc_anthropic_blocks blocks;
    mc_buffer said; /* texts of all kinds, and inputs of calls */
    mc_buffer line;
} answer;

/* ---- writing ---- */

/* A call as a member of a line. */
static bool write_line(answer *a, const mc_piece *piece) {
    mc_json_doc *doc = NULL;
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

static mica_status take(void *user, const mc_piece *piece) {
    static const mc_block_kind kinds[] = {MC_BLOCK_TEXT, MC_BLOCK_THINKING};
    answer *a = user;
    if (!mc_buffer_add(&a->said, piece->text.ptr, piece->text.len)) return MICA_ENOMEM;
    bool done =
        piece->kind == MC_PIECE_CALL
            ? write_line(a, piece) && mc_anthropic_blocks_call(&a->blocks, piece->name, piece->text)
            : mc_anthropic_blocks_add(&a->blocks, kinds[piece->kind], piece->text);
    return done ? MICA_OK : MICA_ENOMEM;
}

static bool write(const mc_answer_format *format, bool is_open, mc_str text, answer *a) {
    mc_tools tools;
    mc_splitter *s = NULL;
    mica_status status = mc_tools_read(tools_text, sizeof tools_text - 1, &tools);
    must(status == MICA_OK || status == MICA_ENOMEM);
    bool done = status == MICA_OK &&
                mc_splitter_open(format, &tools, is_open, take, a, &s) == MICA_OK &&
                mc_splitter_push(s, text.ptr, text.len) == MICA_OK &&
                mc_splitter_end(s) == MICA_OK && mc_anthropic_blocks_end(&a->blocks);
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
static bool read_data(mc_str name, mc_str text, mc_buffer *said) {
    static const char *const members[] = {"text", "thinking", "partial_json"};
    mc_json_doc *doc = NULL;
    mc_str type, more;
    mica_status status = mc_json_parse(text.ptr, text.len, "event", &doc);
    must(status == MICA_OK || status == MICA_ENOMEM);
    if (status != MICA_OK) return false;
    mc_json root = mc_json_root(doc), delta = mc_json_find(root, "delta");
    must(mc_json_get_str(mc_json_find(root, "type"), &type) && mc_str_eq(type, name));
    bool done = true;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (done && mc_json_get_str(mc_json_find(delta, members[i]), &more))
            done = mc_buffer_add(said, more.ptr, more.len);
    mc_json_close(&doc);
    return done;
}

static bool read(mc_str stream, mc_buffer *said) {
    mc_str line, name = {NULL, 0}, text = {NULL, 0};
    while (take_line(&stream, &line)) {
        if (!line.len) { /* the end of an event */
            must(name.len > 0 && text.len > 0);
            if (!read_data(name, text, said)) return false;
            name = text = (mc_str){NULL, 0};
        } else if (mc_str_starts(line, MC_STR("event: "))) {
            must(!name.ptr);
            name = (mc_str){line.ptr + 7, line.len - 7};
        } else {
            must(mc_str_starts(line, MC_STR("data: ")) && !text.ptr);
            text = (mc_str){line.ptr + 6, line.len - 6};
        }
    }
    must(!stream.len && !name.ptr && !text.ptr);
    return true;
}

static void run(const mc_answer_format *format, bool is_open, mc_str text) {
    answer a = {.line = {0}};
    mc_buffer said = {0};
    mc_exchange *http = mc_exchange_new(NULL, "POST", "/");
    if (!http) return;
    http->connection = http; /* it is there, and never suspended */
    a.blocks.stream = http;
    if (write(format, is_open, text, &a) && read((mc_str){http->out.data, http->out.len}, &said) &&
        mc_utf8_valid(text.ptr, text.len)) {
        must(said.len == a.said.len);
        must(!said.len || memcmp(said.data, a.said.data, said.len) == 0);
    }
    mc_anthropic_blocks_deinit(&a.blocks);
    mc_buffer_deinit(&a.said);
    mc_buffer_deinit(&a.line);
    mc_buffer_deinit(&said);
    mc_exchange_free(http);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"hermes", "llama", "pythonic", "gemma", "generic"};
    if (size < 2) return 0;
    bool thinks = data[0] & 128, is_open = data[0] & 64;
    const mc_answer_format format = {.calls = mc_call_format_find(names[(data[0] & 63) % 5]),
                                     .think_begin = thinks ? "<think>" : NULL,
                                     .think_end = thinks ? "</think>" : NULL};
    mc_str text = {(const char *)data + 1, size - 1};
    run(&format, is_open, text);
    mc_alloc_fail_at(1 + data[size - 1] % 64);
    run(&format, is_open, text);
    mc_alloc_fail_at(0);
    return 0;
}

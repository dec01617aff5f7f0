#include "serve/anthropic/blocks.h"

#include "serve/common/partial_json.h"

/* How a kind is called: its type, the member with its text, and the type of its deltas. */
static const struct {
    const char *type, *member, *delta;
} kinds[] = {
    [MC_BLOCK_TEXT] = {"text", "text", "text_delta"},
    [MC_BLOCK_THINKING] = {"thinking", "thinking", "thinking_delta"},
    [MC_BLOCK_TOOL_USE] = {"tool_use", "partial_json", "input_json_delta"},
};

mc_put mc_anthropic_event(mc_buffer *event, const char *name) {
    mc_buffer_clear(event);
    mc_put put = mc_put_into(event);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "type", name);
    return put;
}

bool mc_anthropic_send(mc_exchange *http, const char *name, mc_put *put) {
    mc_put_close(put, '}');
    return !put->failed && mc_exchange_event(http, name, put->out->data, put->out->len);
}

void mc_anthropic_blocks_deinit(mc_anthropic_blocks *blocks) {
    mc_buffer_deinit(&blocks->whole);
    mc_buffer_deinit(&blocks->text);
    mc_buffer_deinit(&blocks->name);
    mc_buffer_deinit(&blocks->event);
}

/* A block with its text. What signs a thinking block is empty: nothing checks it. */
static void put_block(mc_put *put, const char *key, mc_block_kind kind, mc_str text) {
    mc_put_open(put, key, '{');
    mc_put_text(put, "type", kinds[kind].type);
    mc_put_str(put, kinds[kind].member, text);
    if (kind == MC_BLOCK_THINKING) mc_put_text(put, "signature", "");
    mc_put_close(put, '}');
}

static bool send_start(mc_anthropic_blocks *blocks, mc_block_kind kind) {
    mc_put put = mc_anthropic_event(&blocks->event, "content_block_start");
    mc_put_int(&put, "index", (int64_t)blocks->count);
    put_block(&put, "content_block", kind, MC_STR(""));
    return mc_anthropic_send(blocks->stream, "content_block_start", &put);
}

static bool send_delta(mc_anthropic_blocks *blocks, const char *type, const char *member,
                       mc_str text) {
    mc_put put = mc_anthropic_event(&blocks->event, "content_block_delta");
    mc_put_int(&put, "index", (int64_t)blocks->count);
    mc_put_open(&put, "delta", '{');
    mc_put_text(&put, "type", type);
    mc_put_str(&put, member, text);
    mc_put_close(&put, '}');
    return mc_anthropic_send(blocks->stream, "content_block_delta", &put);
}

static bool send_stop(mc_anthropic_blocks *blocks) {
    if (blocks->open == MC_BLOCK_THINKING &&
        !send_delta(blocks, "signature_delta", "signature", MC_STR("")))
        return false;
    mc_put put = mc_anthropic_event(&blocks->event, "content_block_stop");
    mc_put_int(&put, "index", (int64_t)blocks->count);
    return mc_anthropic_send(blocks->stream, "content_block_stop", &put);
}

/* A call; input "{}" where a stream begins it. */
static void put_call(mc_put *put, const char *key, const char *id, mc_str name, mc_str input) {
    mc_put_open(put, key, '{');
    mc_put_text(put, "type", "tool_use");
    mc_put_text(put, "id", id);
    mc_put_str(put, "name", name);
    mc_put_json(put, "caller", "{\"type\":\"direct\"}");
    mc_put_raw(put, "input", input);
    mc_put_close(put, '}');
}

/* Writes the block that has ended into the whole. An input is an object also if it was cut off: it
 * has the members that are complete, as clients read a stream of it. */
static bool put_whole(mc_anthropic_blocks *blocks) {
    mc_put put = mc_put_into(&blocks->whole);
    mc_str text = {blocks->text.data, blocks->text.len};
    mc_buffer input = {0};
    bool call = blocks->open == MC_BLOCK_TOOL_USE;
    put.comma = blocks->count > 0;
    bool done = !call || mc_partial_json_close(text, &input);
    if (call && done)
        put_call(&put, NULL, blocks->id, (mc_str){blocks->name.data, blocks->name.len},
                 (mc_str){input.data, input.len});
    else if (done)
        put_block(&put, NULL, blocks->open, text);
    mc_buffer_clear(&blocks->text);
    mc_buffer_deinit(&input);
    return done && !put.failed;
}

bool mc_anthropic_blocks_end(mc_anthropic_blocks *blocks) {
    if (blocks->open == MC_BLOCK_NONE) return true;
    bool done = blocks->stream ? send_stop(blocks) : put_whole(blocks);
    blocks->open = MC_BLOCK_NONE;
    blocks->count++;
    return done;
}

bool mc_anthropic_blocks_add(mc_anthropic_blocks *blocks, mc_block_kind kind, mc_str text) {
    if (!text.len) return true;
    if (blocks->open != kind) {
        if (!mc_anthropic_blocks_end(blocks)) return false;
        blocks->open = kind;
        if (blocks->stream && !send_start(blocks, kind)) return false;
    }
    if (!blocks->stream) return mc_buffer_add(&blocks->text, text.ptr, text.len);
    return send_delta(blocks, kinds[kind].delta, kinds[kind].member, text);
}

bool mc_anthropic_blocks_begin_call(mc_anthropic_blocks *blocks, mc_str name) {
    if (!mc_anthropic_blocks_end(blocks)) return false;
    mc_chance_name("toolu", blocks->id);
    mc_buffer_clear(&blocks->name);
    blocks->open = MC_BLOCK_TOOL_USE;
    if (!blocks->stream) return mc_buffer_add(&blocks->name, name.ptr, name.len);
    mc_put put = mc_anthropic_event(&blocks->event, "content_block_start");
    mc_put_int(&put, "index", (int64_t)blocks->count);
    put_call(&put, "content_block", blocks->id, name, MC_STR("{}"));
    return mc_anthropic_send(blocks->stream, "content_block_start", &put);
}

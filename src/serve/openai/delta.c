#include "serve/openai/delta.h"

#include "serve/common/chance.h"

void mc_openai_put_call(mc_put *put, int64_t index, mc_str name, mc_str arguments) {
    char id[MC_NAME_BYTES];
    mc_chance_name("call", id);
    mc_put_open(put, NULL, '{');
    if (index >= 0) mc_put_int(put, "index", index);
    mc_put_text(put, "id", id);
    mc_put_text(put, "type", "function");
    mc_put_open(put, "function", '{');
    mc_put_str(put, "name", name);
    mc_put_str(put, "arguments", arguments);
    mc_put_close(put, '}');
    mc_put_close(put, '}');
}

/* The beginning of a call, or more of its arguments. */
static void put_call(mc_put *put, const mc_piece *piece, size_t *calls) {
    mc_put_open(put, "tool_calls", '[');
    if (piece->kind == MC_PIECE_CALL_BEGIN) {
        mc_openai_put_call(put, (int64_t)(*calls)++, piece->name, MC_STR(""));
    } else {
        mc_put_open(put, NULL, '{');
        mc_put_int(put, "index", (int64_t)*calls - 1);
        mc_put_open(put, "function", '{');
        mc_put_str(put, "arguments", piece->text);
        mc_put_close(put, '}');
        mc_put_close(put, '}');
    }
    mc_put_close(put, ']');
}

void mc_openai_put_delta(mc_put *put, const mc_openai_delta *delta, size_t *calls) {
    const mc_piece *piece = delta->piece;
    mc_put_open(put, "delta", '{');
    if (delta->role) mc_put_text(put, "role", "assistant");
    if (delta->role || (delta->blank && !piece)) mc_put_text(put, "content", "");
    if (piece && piece->kind == MC_PIECE_TEXT) mc_put_str(put, "content", piece->text);
    if (piece && piece->kind == MC_PIECE_THOUGHT) mc_put_str(put, "reasoning_content", piece->text);
    if (piece && piece->kind > MC_PIECE_THOUGHT) put_call(put, piece, calls);
    mc_put_close(put, '}');
}

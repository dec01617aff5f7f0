/* Ids to text: all at once, or one by one while a model generates them. */
#include "text/tokenizer/tokenizer.h"

#include "base/alloc.h"

struct mica_decoder_stream {
    mica_tokenizer *tok; /* held */
    bool skip_special;
    mc_decoding state;
    mc_buffer piece; /* the text that the last call handed out */
};

/* Decodes an id. An id without a token gives nothing. */
static mica_status take_id(const mica_tokenizer *tok, mc_decoding *state, int32_t id,
                           bool skip_special) {
    if (id < 0) return mc_fail(MICA_EINVAL, "decode: the id %d is negative", (int)id);
    const mc_token *token = mc_vocab_token(&tok->vocab, id);
    if (!token || (skip_special && (token->flags & MC_TOKEN_SPECIAL))) return MICA_OK;
    return mc_decode_token(&tok->decoder, state, id, mc_tokenizer_spelled(tok, id));
}

static mica_status decode_all(const mica_tokenizer *tok, mc_decoding *state, const int32_t *ids,
                              size_t n, bool skip_special) {
    for (size_t i = 0; i < n; i++)
        MC_TRY(take_id(tok, state, ids[i], skip_special));
    return mc_decode_end(&tok->decoder, state) ? MICA_OK : mc_fail_nomem("text");
}

mica_status mica_tokenizer_decode(const mica_tokenizer *tok, const int32_t *ids, size_t n,
                                  bool skip_special, char **text, size_t *len) {
    if (text) *text = NULL;
    if (len) *len = 0;
    if (!tok || !text || !len || (!ids && n)) {
        return mc_fail(MICA_EINVAL, "mica_tokenizer_decode: an argument is NULL");
    }
    mc_decoding state = {0};
    mica_status status = decode_all(tok, &state, ids, n, skip_special);
    if (status == MICA_OK) {
        size_t bytes = state.text.len;
        *text = mc_buffer_take(&state.text);
        if (*text) {
            *len = bytes;
        } else {
            status = mc_fail_nomem("text");
        }
    }
    mc_decoding_deinit(&state);
    return status;
}

mica_status mica_decoder_stream_open(const mica_tokenizer *tok, bool skip_special,
                                     mica_decoder_stream **stream) {
    if (stream) *stream = NULL;
    if (!tok || !stream) {
        return mc_fail(MICA_EINVAL, "mica_decoder_stream_open: an argument is NULL");
    }
    mica_decoder_stream *s = mc_calloc(1, sizeof *s);
    if (!s) return mc_fail_nomem("decoder stream");
    s->tok = mc_tokenizer_retain(tok);
    s->skip_special = skip_special;
    *stream = s;
    return MICA_OK;
}

static bool ends_undecided(const mc_buffer *text) {
    return mc_str_ends((mc_str){text->data, text->len}, MC_STR("\xEF\xBF\xBD"));
}

/* Hands out the complete text. */
static mica_status hand_out(mica_decoder_stream *s, const char **piece, size_t *len) {
    mc_buffer last = s->piece;
    s->piece = s->state.text;
    s->state.text = last;
    mc_buffer_clear(&s->state.text);
    *piece = mc_buffer_cstr(&s->piece);
    if (!*piece) return mc_fail_nomem("text");
    *len = s->piece.len;
    return MICA_OK;
}

mica_status mica_decoder_stream_push(mica_decoder_stream *stream, int32_t id, const char **piece,
                                     size_t *len) {
    if (!stream || !piece || !len) {
        return mc_fail(MICA_EINVAL, "mica_decoder_stream_push: an argument is NULL");
    }
    *piece = "";
    *len = 0;
    MC_TRY(take_id(stream->tok, &stream->state, id, stream->skip_special));
    bool no_memory = false;
    bool settled = mc_decode_settle(&stream->tok->decoder, &stream->state, &no_memory);
    if (no_memory) return mc_fail_nomem("text");
    if (!settled || ends_undecided(&stream->state.text)) return MICA_OK;
    return hand_out(stream, piece, len);
}

mica_status mica_decoder_stream_flush(mica_decoder_stream *stream, const char **piece,
                                      size_t *len) {
    if (!stream || !piece || !len) {
        return mc_fail(MICA_EINVAL, "mica_decoder_stream_flush: an argument is NULL");
    }
    *piece = "";
    *len = 0;
    if (!mc_decode_end(&stream->tok->decoder, &stream->state)) return mc_fail_nomem("text");
    MC_TRY(hand_out(stream, piece, len));
    mc_decoding_reset(&stream->state);
    return MICA_OK;
}

void mica_decoder_stream_close(mica_decoder_stream **stream) {
    if (!stream || !*stream) return;
    mica_decoder_stream *s = *stream;
    *stream = NULL;
    mc_decoding_deinit(&s->state);
    mc_buffer_deinit(&s->piece);
    mica_tokenizer_close(&s->tok);
    mc_free(s);
}

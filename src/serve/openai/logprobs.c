#include "serve/openai/logprobs.h"

#include "base/utf8.h"
#include "serve/common/token_text.h"

#include <string.h>

/* What another element of a list is written with. */
static mc_put more(mc_buffer *list) {
    mc_put put = mc_put_into(list);
    put.comma = list->len > 0;
    return put;
}

/* Counts the characters of a token's bytes, which may complete one, and leave another to be
 * completed. false: no memory */
static bool count_characters(mc_logprobs *logprobs) {
    mc_buffer bytes = {0};
    bool done = mc_buffer_add(&bytes, logprobs->part, logprobs->part_bytes) &&
                mc_buffer_add(&bytes, logprobs->text.data, logprobs->text.len);
    size_t part = done && bytes.len ? mc_utf8_unfinished(bytes.data, bytes.len) : 0;
    for (size_t i = 0; done && i < bytes.len - part; logprobs->offset++) {
        uint32_t c;
        size_t bad = mc_utf8_bad_len(bytes.data + i, bytes.len - part - i);
        i += bad ? bad : mc_utf8_decode(bytes.data + i, bytes.len - part - i, &c);
    }
    logprobs->part_bytes = part;
    if (part) memcpy(logprobs->part, bytes.data + bytes.len - part, part);
    mc_buffer_deinit(&bytes);
    return done;
}

/* An object of the alternatives by their texts, and of the token itself, which need not be among
 * them. Of equal texts only the likeliest is there. */
static bool add_likeliest(mc_logprobs *logprobs, const mica_tokenizer *tok, mica_alternative self,
                          const mica_alternative *alternatives, size_t count) {
    mc_put put = more(&logprobs->likeliest);
    mc_buffer keys = {0};
    mc_put_open(&put, NULL, '{');
    for (size_t i = 0; i <= count && !put.failed; i++) {
        const mica_alternative *at = i < count ? &alternatives[i] : &self;
        mc_buffer key = {0};
        mc_put name = mc_put_into(&key);
        put.failed = !mc_buffer_add_byte(&key, '\n') || /* no text of JSON has one */
                     !mc_token_text(tok, at->id, &logprobs->text);
        mc_put_str(&name, NULL, (mc_str){logprobs->text.data, logprobs->text.len});
        put.failed = put.failed || name.failed || !mc_buffer_add(&key, ":\n", 2);
        bool seen = !put.failed && keys.len && strstr(mc_buffer_cstr(&keys), mc_buffer_cstr(&key));
        if (!put.failed && !seen) {
            put.failed = (put.comma && !mc_buffer_add_byte(put.out, ',')) ||
                         !mc_buffer_add(put.out, key.data + 1, key.len - 2) ||
                         !mc_json_put_number(put.out, (double)at->logprob) ||
                         !mc_buffer_add(&keys, key.data, key.len);
            put.comma = true;
        }
        mc_buffer_deinit(&key);
    }
    mc_put_close(&put, '}');
    mc_buffer_deinit(&keys);
    return !put.failed;
}

bool mc_logprobs_add(mc_logprobs *logprobs, const mica_tokenizer *tok, int32_t id,
                     const float *logprob, const mica_alternative *alternatives, size_t count) {
    mc_put tokens = more(&logprobs->tokens), values = more(&logprobs->values);
    mc_put offsets = more(&logprobs->offsets), likeliest = more(&logprobs->likeliest);
    if (!mc_token_text(tok, id, &logprobs->text)) return false;
    mc_put_str(&tokens, NULL, (mc_str){logprobs->text.data, logprobs->text.len});
    mc_put_int(&offsets, NULL, logprobs->offset + (logprobs->part_bytes > 0));
    if (!mica_tokenizer_is_special(tok, id) && !count_characters(logprobs)) return false;
    if (logprob)
        mc_put_real(&values, NULL, (double)*logprob);
    else
        mc_put_null(&values, NULL);
    if (!logprob)
        mc_put_null(&likeliest, NULL);
    else if (!add_likeliest(logprobs, tok, (mica_alternative){id, *logprob}, alternatives, count))
        return false;
    return !tokens.failed && !values.failed && !offsets.failed && !likeliest.failed;
}

bool mc_logprobs_copy(mc_logprobs *logprobs, const mc_logprobs *from) {
    logprobs->offset = from->offset;
    logprobs->part_bytes = from->part_bytes;
    memcpy(logprobs->part, from->part, sizeof from->part);
    return mc_buffer_add(&logprobs->tokens, from->tokens.data, from->tokens.len) &&
           mc_buffer_add(&logprobs->values, from->values.data, from->values.len) &&
           mc_buffer_add(&logprobs->likeliest, from->likeliest.data, from->likeliest.len) &&
           mc_buffer_add(&logprobs->offsets, from->offsets.data, from->offsets.len);
}

void mc_logprobs_put(const mc_logprobs *logprobs, mc_put *put) {
    mc_put_open(put, "logprobs", '{');
    mc_put_list(put, "tokens", &logprobs->tokens);
    mc_put_list(put, "token_logprobs", &logprobs->values);
    mc_put_list(put, "top_logprobs", &logprobs->likeliest);
    mc_put_list(put, "text_offset", &logprobs->offsets);
    mc_put_close(put, '}');
}

void mc_logprobs_clear(mc_logprobs *logprobs) {
    mc_buffer_clear(&logprobs->tokens);
    mc_buffer_clear(&logprobs->values);
    mc_buffer_clear(&logprobs->likeliest);
    mc_buffer_clear(&logprobs->offsets);
}

void mc_logprobs_deinit(mc_logprobs *logprobs) {
    mc_buffer_deinit(&logprobs->tokens);
    mc_buffer_deinit(&logprobs->values);
    mc_buffer_deinit(&logprobs->likeliest);
    mc_buffer_deinit(&logprobs->offsets);
    mc_buffer_deinit(&logprobs->text);
}

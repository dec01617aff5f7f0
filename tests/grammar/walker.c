/* A random model for tools/check_schemas.py: it writes documents under a schema's constraint, and
 * says which given ones the grammar accepts. Usage: grammar_walker TOKENIZER_FOLDER
 *
 * Each line of input is an object {"schema": text, "walks": number, "seed": number, "max_tokens":
 * number, "instances": [text]}; each line of output {"error": text, "status": text}, or {"walks":
 * [{"text", "finished"}], "accepted": [true or false]}. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/json_write.h"
#include "grammar/grammar_constraint.h"
#include "grammar/schema.h"

#include <mica/tokenizer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_tokenizer *tokenizer;
static mc_grammars *grammars;
static uint32_t *allowed;
static size_t vocab, words;

static void check(mica_status status, const char *what) {
    if (status == MICA_OK) return;
    fprintf(stderr, "grammar_walker: %s: %s\n", what, mica_last_error());
    exit(2);
}

static uint64_t next_random(uint64_t *state) { /* SplitMix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Whether a token brings a document nearer to its end. */
static bool closes(size_t id) {
    size_t len;
    const char *text = mica_tokenizer_token(tokenizer, (int32_t)id, &len);
    return text && len == 1 && strchr("\"]},:0eltrufasn", text[0]);
}

/* Whether a token is short enough to draw in a hurry: `any` single byte, or one that closes. */
static bool hurries(size_t id, bool any) {
    size_t len;
    return closes(id) || (any && mica_tokenizer_token(tokenizer, (int32_t)id, &len) && len == 1);
}

/* One of the allowed tokens; -1: the end. hurry: mostly one that closes something, if there is any,
 * else a single byte, since a document may need some. */
static int64_t draw(const mc_token_mask *mask, bool hurry, uint64_t *random) {
    bool any = hurry && next_random(random) % 3 == 0;
    size_t n = 0, closing = 0, at;
    for (size_t id = 0; id < vocab; id++) {
        if (!(allowed[id / 32] >> id % 32 & 1)) continue;
        n++;
        closing += hurries(id, any);
    }
    if (mask->may_end && (hurry || next_random(random) % (n + 1) == 0)) return -1;
    if (!n) {
        fprintf(stderr, "grammar_walker: nothing is allowed\n");
        exit(2);
    }
    hurry = hurry && closing;
    at = next_random(random) % (hurry ? closing : n);
    for (size_t id = 0;; id++)
        if (allowed[id / 32] >> id % 32 & 1 && (!hurry || hurries(id, any)) && at-- == 0)
            return (int64_t)id;
}

static bool walk(mc_grammar *grammar, uint64_t seed, size_t max_tokens, mc_buffer *out) {
    mc_constraint *c;
    mica_decoder_stream *decoder;
    mc_buffer text = {0};
    bool finished = false;
    check(mc_grammars_constrain(grammars, grammar, 0, &c), "constrain");
    check(mica_decoder_stream_open(tokenizer, true, &decoder), "decoder");
    const char *piece;
    size_t len;
    for (size_t i = 0; i < max_tokens && !finished; i++) {
        mc_token_mask mask = {.allowed = allowed, .vocab = vocab};
        check(c->ops->mask(c, &mask), "mask");
        int64_t id = draw(&mask, i > max_tokens / 4, &seed);
        finished = id < 0;
        if (finished) break;
        check(c->ops->accept(c, (int32_t)id), "accept");
        check(mica_decoder_stream_push(decoder, (int32_t)id, &piece, &len), "decode");
        if (len) mc_buffer_add(&text, piece, len);
    }
    check(mica_decoder_stream_flush(decoder, &piece, &len), "decode");
    if (len) mc_buffer_add(&text, piece, len);
    mc_constraint_close(&c);
    mica_decoder_stream_close(&decoder);
    mc_buffer_add_text(out, "{\"text\": ");
    mc_json_put_str(out, (mc_str){text.data, text.len});
    mc_buffer_printf(out, ", \"finished\": %s}", finished ? "true" : "false");
    mc_buffer_deinit(&text);
    return finished;
}

static void put_error(mica_status status, mc_buffer *out) {
    mc_buffer_add_text(out, "{\"error\": ");
    mc_json_put_text(out, mica_last_error());
    mc_buffer_add_text(out, ", \"status\": ");
    mc_json_put_text(out, mica_status_name(status));
    mc_buffer_add_text(out, "}");
}

static void answer(mc_json request, mc_buffer *out) {
    mc_str schema = MC_STR(""), text;
    mc_grammar *grammar;
    int64_t walks = 0, seed = 0, max_tokens = 1000;
    bool first = true;
    mc_json_get_str(mc_json_find(request, "schema"), &schema);
    mc_json_get_int(mc_json_find(request, "walks"), &walks);
    mc_json_get_int(mc_json_find(request, "seed"), &seed);
    mc_json_get_int(mc_json_find(request, "max_tokens"), &max_tokens);
    mica_status status = mc_schema_compile(schema.ptr, schema.len, &grammar);
    if (status != MICA_OK) {
        put_error(status, out);
        return;
    }
    mc_buffer_add_text(out, "{\"walks\": [");
    for (int64_t i = 0; i < walks; i++) {
        if (i) mc_buffer_add_text(out, ", ");
        walk(grammar, (uint64_t)(seed + i) * 7919, (size_t)max_tokens, out);
    }
    mc_buffer_add_text(out, "], \"accepted\": [");
    for (mc_json_iter it = mc_json_begin(mc_json_find(request, "instances")); mc_json_next(&it);) {
        bool accepted = false;
        if (!mc_json_get_str(it.value, &text)) continue;
        check(mc_grammar_accepts(grammar, text.ptr, text.len, &accepted, NULL), "accepts");
        mc_buffer_printf(out, "%s%s", first ? "" : ", ", accepted ? "true" : "false");
        first = false;
    }
    mc_buffer_add_text(out, "]}");
    mc_grammar_close(&grammar);
}

int main(int argc, char **argv) {
    static char line[1 << 22];
    if (argc != 2) {
        fprintf(stderr, "usage: grammar_walker TOKENIZER_FOLDER\n");
        return 2;
    }
    check(mica_tokenizer_open(argv[1], &tokenizer), argv[1]);
    vocab = mica_tokenizer_vocab_size(tokenizer);
    words = (vocab + 31) / 32;
    allowed = mc_calloc(words, sizeof *allowed);
    check(mc_grammars_open(tokenizer, vocab, &grammars), "grammars");
    while (allowed && fgets(line, sizeof line, stdin)) {
        mc_json_doc *doc;
        mc_buffer out = {0};
        check(mc_json_parse(line, strlen(line), "request", &doc), "request");
        answer(mc_json_root(doc), &out);
        puts(mc_buffer_cstr(&out));
        fflush(stdout);
        mc_buffer_deinit(&out);
        mc_json_close(&doc);
    }
    mc_grammars_close(&grammars);
    mica_tokenizer_close(&tokenizer);
    mc_free(allowed);
    return 0;
}

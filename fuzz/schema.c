/* Input: a JSON schema, a NUL, and bytes that choose what a document says. A schema compiles, or
 * fails with a text. Its grammar is never stuck: in every state something may come, or the document
 * may end, and where it may it parses. A pattern goes the same way. */
#include "grammar/schema.h"
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(mc_str source, mc_str choices) {
    mc_grammar *g;
    mica_status status = mc_schema_compile(source.ptr, source.len, &g);
    fuzz_must(status == MICA_OK ? g != NULL : !g && *mica_last_error());
    if (g) fuzz_walk(g, choices, true);
    mc_grammar_close(&g);
    status = mc_grammar_regex(source.ptr, source.len, &g);
    fuzz_must(status == MICA_OK ? g != NULL : !g && *mica_last_error());
    if (g) fuzz_walk(g, choices, false);
    mc_grammar_close(&g);
    for (int wide = 0; wide < 2; wide++) {
        status = mc_grammar_pattern(source.ptr, source.len, wide, &g);
        fuzz_must(status == MICA_OK ? g != NULL : !g && *mica_last_error());
        if (g) fuzz_walk(g, choices, false);
        mc_grammar_close(&g);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_source(data, size, run);
}

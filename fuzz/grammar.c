/* Input: a grammar as users write them, a NUL, and bytes that choose what a text says. It compiles
 * as GBNF and as Lark's notation, or fails with a text. Its grammar is never stuck. */
#include "grammar/answer_grammar.h"
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(mc_str source, mc_str choices) {
    static const mica_constraint_kind kinds[] = {MICA_CONSTRAINT_GBNF, MICA_CONSTRAINT_LARK};
    const mc_answer_format plain = {0};
    for (size_t i = 0; i < 2; i++) {
        mc_grammar *g;
        mica_status status = mc_answer_grammar_document(kinds[i], source.ptr, source.len, &plain,
                                                        MC_THINKING_NONE, &g);
        fuzz_must(status == MICA_OK ? g != NULL : !g && *mica_last_error());
        if (g) fuzz_walk(g, choices, false);
        mc_grammar_close(&g);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_source(data, size, run);
}

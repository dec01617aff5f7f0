#include "convert/gguf_model.h"

#include "base/alloc.h"
#include "convert/gguf_numbers.h"
#include "convert/gguf_sentence.h"

#include <inttypes.h>

/* Token ids that config.json has, too. */
static bool put_tokens(const mc_gguf *g, mc_buffer *out) {
    static const char *const keys[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                          {"tokenizer.ggml.eos_token_id", "eos_token_id"}};
    int64_t id;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (mc_gguf_int(g, keys[i][0], &id) &&
            !mc_buffer_printf(out, ",\n    \"%s\": %" PRId64, keys[i][1], id))
            return false;
    return true;
}

mica_status mc_gguf_config(const mc_gguf *g, const mc_gguf_arch *arch, mc_buffer *out) {
    mc_gguf_numbers *numbers = mc_calloc(1, sizeof *numbers);
    if (!numbers) return mc_fail_nomem("config.json");
    mica_status status = mc_gguf_numbers_read(g, arch, numbers);
    if (status == MICA_OK &&
        (!mc_gguf_numbers_config(arch, numbers, out) || !put_tokens(g, out) ||
         !mc_gguf_ranker_config(g, arch, out) || !mc_buffer_add_text(out, "\n}\n")))
        status = mc_fail_nomem("config.json");
    mc_free(numbers);
    return status;
}

#include "text/chat/chat.h"

#include "base/str.h"
#include "base/utf8.h"
#include "text/space.h"

#include <string.h>

typedef struct chat {
    const mc_chat_message *messages;
    size_t n;
    const char *bos;
    bool add_generation_prompt;
} chat;

/* White space of the templates' `trim`: Unicode's, and the four information separators. */
static bool trimmed_away(uint32_t c) {
    return mc_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

static mc_str trim(mc_str text) {
    uint32_t c;
    size_t n;
    while (text.len && (n = mc_utf8_decode(text.ptr, text.len, &c)) > 0 && trimmed_away(c)) {
        text.ptr += n;
        text.len -= n;
    }
    while (text.len) {
        size_t start = text.len - 1;
        while (start > 0 && ((unsigned char)text.ptr[start] & 0xC0) == 0x80)
            start--;
        n = mc_utf8_decode(text.ptr + start, text.len - start, &c);
        if (n != text.len - start || !trimmed_away(c)) break;
        text.len = start;
    }
    return text;
}

static bool is_role(const mc_chat_message *message, const char *role) {
    return mc_str_is(mc_str_of(message->role), role);
}

/* <start_of_turn>role \n content <end_of_turn>\n; system text is put before the first content. */
static mica_status gemma_turn(const mc_chat_message *message, const char *system, mc_buffer *out) {
    mc_str content = trim(mc_str_of(message->content));
    const char *role = is_role(message, "assistant") ? "model" : message->role;
    bool ok = mc_buffer_add_text(out, "<start_of_turn>") && mc_buffer_add_text(out, role) &&
              mc_buffer_add_text(out, "\n");
    if (system) ok = ok && mc_buffer_add_text(out, system) && mc_buffer_add_text(out, "\n\n");
    ok = ok && mc_buffer_add(out, content.ptr, content.len) &&
         mc_buffer_add_text(out, "<end_of_turn>\n");
    return ok ? MICA_OK : mc_fail_nomem("chat prompt");
}

static mica_status render_gemma(const chat *c, mc_buffer *out) {
    const char *system = is_role(&c->messages[0], "system") ? c->messages[0].content : NULL;
    size_t first = system ? 1 : 0;
    if (!mc_buffer_add_text(out, c->bos)) return mc_fail_nomem("chat prompt");
    for (size_t i = first; i < c->n; i++) {
        if (is_role(&c->messages[i], "user") != ((i - first) % 2 == 0)) {
            return mc_fail(
                MICA_EINVAL,
                "chat: Conversation roles must alternate user/assistant/user/assistant/..."
                " (message %zu is of role '%s')",
                i, c->messages[i].role);
        }
        MC_TRY(gemma_turn(&c->messages[i], i == first ? system : NULL, out));
    }
    if (c->add_generation_prompt && !mc_buffer_add_text(out, "<start_of_turn>model\n")) {
        return mc_fail_nomem("chat prompt");
    }
    return MICA_OK;
}

/* The role of a message, with "assistant" for "model". */
static const char *assistant_or(const mc_chat_message *message) {
    return is_role(message, "model") ? "assistant" : message->role;
}

/* <|im_start|>role \n content <|im_end|>\n */
static mica_status render_chatml(const chat *c, mc_buffer *out) {
    bool ok = true;
    for (size_t i = 0; i < c->n; i++) {
        ok = ok && mc_buffer_add_text(out, "<|im_start|>") &&
             mc_buffer_add_text(out, assistant_or(&c->messages[i])) &&
             mc_buffer_add_text(out, "\n") && mc_buffer_add_text(out, c->messages[i].content) &&
             mc_buffer_add_text(out, "<|im_end|>\n");
    }
    if (c->add_generation_prompt) ok = ok && mc_buffer_add_text(out, "<|im_start|>assistant\n");
    return ok ? MICA_OK : mc_fail_nomem("chat prompt");
}

static bool add_llama3_header(const char *role, mc_buffer *out) {
    return mc_buffer_add_text(out, "<|start_header_id|>") && mc_buffer_add_text(out, role) &&
           mc_buffer_add_text(out, "<|end_header_id|>\n\n");
}

/* bos, then header, content <|eot_id|> */
static mica_status render_llama3(const chat *c, mc_buffer *out) {
    bool ok = mc_buffer_add_text(out, c->bos);
    for (size_t i = 0; i < c->n; i++) {
        mc_str content = trim(mc_str_of(c->messages[i].content));
        ok = ok && add_llama3_header(assistant_or(&c->messages[i]), out) &&
             mc_buffer_add(out, content.ptr, content.len) && mc_buffer_add_text(out, "<|eot_id|>");
    }
    if (c->add_generation_prompt) ok = ok && add_llama3_header("assistant", out);
    return ok ? MICA_OK : mc_fail_nomem("chat prompt");
}

/* One message of harmony, whose system messages are the developer's instructions. */
static bool add_harmony(const mc_chat_message *message, mc_buffer *out) {
    const char *role = assistant_or(message), *head = "<|message|>";
    if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0) {
        role = "developer";
        head = "<|message|># Instructions\n\n";
    } else if (strcmp(role, "assistant") == 0) {
        head = "<|channel|>final<|message|>";
    }
    return mc_buffer_add_text(out, "<|start|>") && mc_buffer_add_text(out, role) &&
           mc_buffer_add_text(out, head) && mc_buffer_add_text(out, message->content) &&
           mc_buffer_add_text(out, "<|end|>");
}

/* The system message that says what answers are made of, then <|start|>role<|message|> content
 * <|end|> */
static mica_status render_harmony(const chat *c, mc_buffer *out) {
    bool ok = mc_buffer_add_text(
        out, "<|start|>system<|message|>You are ChatGPT, a large language model trained by "
             "OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n# Valid channels: "
             "analysis, commentary, final. Channel must be included for every message.<|end|>");
    for (size_t i = 0; i < c->n; i++)
        ok = ok && add_harmony(&c->messages[i], out);
    if (c->add_generation_prompt) ok = ok && mc_buffer_add_text(out, "<|start|>assistant");
    return ok ? MICA_OK : mc_fail_nomem("chat prompt");
}

mica_status mc_chat_render(mc_chat_format format, const mc_chat_message *messages, size_t n,
                           const char *bos, bool add_generation_prompt, mc_buffer *out) {
    static mica_status (*const renders[])(const chat *c, mc_buffer *out) = {
#define MC_CHAT_FORMAT(upper, lower) [MC_CHAT_##upper] = render_##lower,
        MC_CHAT_FORMATS(MC_CHAT_FORMAT)
#undef MC_CHAT_FORMAT
    };
    if (!messages || n == 0) return mc_fail(MICA_EINVAL, "chat: there are no messages");
    for (size_t i = 0; i < n; i++) {
        if (!messages[i].role || !messages[i].content) {
            return mc_fail(MICA_EINVAL, "chat: message %zu has no %s", i,
                           messages[i].role ? "content" : "role");
        }
    }
    size_t len = out->len;
    chat c = {messages, n, bos, add_generation_prompt};
    mica_status status = renders[format](&c, out);
    if (status != MICA_OK) out->len = len;
    return status;
}

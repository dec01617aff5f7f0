/* mica/answer.h: a splitter (answer/splitter.h) whose parts are kept. */
#include "answer/splitter.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/options.h"
#include "engine/model.h"

#include <mica/answer.h>

#include <stdio.h>
#include <string.h>

struct mica_answer {
    mc_answer_format format;
    mc_tools tools;
    bool has_tools, is_open;
    mc_splitter *splitter;    /* NULL: nothing was pushed */
    mc_buffer text, thoughts; /* a NUL follows each */
    mc_buffer calls;          /* mica_tool_call, in the arena */
    mc_arena arena;
    bool ended;
};

static mica_status keep_call(mica_answer *a, const mc_piece *piece) {
    char id[32];
    int len = snprintf(id, sizeof id, "call_%zu", MC_BUFFER_COUNT(&a->calls, mica_tool_call));
    const mica_tool_call call = {
        .name = mc_arena_strndup(&a->arena, piece->name.ptr, piece->name.len),
        .arguments = mc_arena_strndup(&a->arena, piece->text.ptr, piece->text.len),
        .id = mc_arena_strndup(&a->arena, id, (size_t)len)};
    if (call.name && call.arguments && call.id && mc_buffer_add(&a->calls, &call, sizeof call))
        return MICA_OK;
    return mc_fail_nomem("a call of a tool");
}

static mica_status take_piece(void *user, const mc_piece *piece) {
    mica_answer *a = user;
    if (piece->kind == MC_PIECE_CALL) return keep_call(a, piece);
    mc_buffer *to = piece->kind == MC_PIECE_THOUGHT ? &a->thoughts : &a->text;
    if (mc_buffer_add(to, piece->text.ptr, piece->text.len) && mc_buffer_cstr(to)) return MICA_OK;
    return mc_fail_nomem("an answer");
}

static mica_status open_parts(const mica_model *model, const mica_answer_options *o,
                              mica_answer *a) {
    a->format = *mc_model_format(model);
    if (o->prompt)
        MC_TRY(mc_answer_format_find_open(&a->format, mica_model_tokenizer(model), o->prompt,
                                          o->prompt_count, &a->is_open));
    a->has_tools = o->tools != NULL;
    return o->tools ? mc_tools_read(o->tools, strlen(o->tools), &a->tools) : MICA_OK;
}

/* Opens the splitter with the first piece, which says whether there are tokens: in a text, marks
 * are texts. */
static mica_status need_splitter(mica_answer *a, bool tokens) {
    if (a->splitter) return MICA_OK;
    if (!tokens) a->format.tokens = 0;
    return mc_splitter_open(&a->format, a->has_tools ? &a->tools : NULL, a->is_open, take_piece, a,
                            &a->splitter);
}

mica_status mica_answer_open(const mica_model *model, const mica_answer_options *options,
                             mica_answer **answer) {
    mica_answer_options given;
    if (!answer) return mc_fail(MICA_EINVAL, "mica_answer_open: answer is NULL");
    *answer = NULL;
    if (!model) return mc_fail(MICA_EINVAL, "mica_answer_open: model is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_answer_options, prompt_count, &given, options));
    mica_answer *a = mc_calloc(1, sizeof *a);
    if (!a) return mc_fail_nomem("an answer");
    mica_status status = open_parts(model, &given, a);
    if (status == MICA_OK)
        *answer = a;
    else
        mica_answer_close(&a);
    return status;
}

void mica_answer_close(mica_answer **answer) {
    mica_answer *a = answer ? *answer : NULL;
    if (!a) return;
    mc_splitter_close(&a->splitter);
    mc_tools_deinit(&a->tools);
    mc_buffer_deinit(&a->text);
    mc_buffer_deinit(&a->thoughts);
    mc_buffer_deinit(&a->calls);
    mc_arena_deinit(&a->arena);
    mc_free(a);
    *answer = NULL;
}

static mica_status check(const mica_answer *a, const char *function) {
    if (!a) return mc_fail(MICA_EINVAL, "%s: answer is NULL", function);
    return a->ended ? mc_fail(MICA_EINVAL, "%s: the answer has ended", function) : MICA_OK;
}

mica_status mica_answer_push(mica_answer *a, const char *text, size_t len) {
    MC_TRY(check(a, "mica_answer_push"));
    if (!text && len) return mc_fail(MICA_EINVAL, "mica_answer_push: text is NULL");
    if (!len) return MICA_OK;
    MC_TRY(need_splitter(a, false));
    return mc_splitter_push(a->splitter, text, len);
}

mica_status mica_answer_push_token(mica_answer *a, const mica_token *token) {
    MC_TRY(check(a, "mica_answer_push_token"));
    if (!token || (!token->text && token->len))
        return mc_fail(MICA_EINVAL, "mica_answer_push_token: token is NULL");
    MC_TRY(need_splitter(a, true));
    return mc_splitter_push_token(a->splitter, token->id, token->text, token->len);
}

mica_status mica_answer_end(mica_answer *a) {
    MC_TRY(check(a, "mica_answer_end"));
    a->ended = true;
    return a->splitter ? mc_splitter_end(a->splitter) : MICA_OK;
}

static const char *text_of(const mc_buffer *text, size_t *len) {
    if (len) *len = text ? text->len : 0;
    return text && text->data ? text->data : "";
}

const char *mica_answer_text(const mica_answer *a, size_t *len) {
    return text_of(a ? &a->text : NULL, len);
}

const char *mica_answer_thoughts(const mica_answer *a, size_t *len) {
    return text_of(a ? &a->thoughts : NULL, len);
}

size_t mica_answer_call_count(const mica_answer *a) {
    return a ? MC_BUFFER_COUNT(&a->calls, mica_tool_call) : 0;
}

mica_status mica_answer_get_call(const mica_answer *a, size_t i, mica_tool_call *call) {
    if (!call || i >= mica_answer_call_count(a))
        return mc_fail(MICA_EINVAL, "no call %zu of %zu", i, mica_answer_call_count(a));
    *call = MC_BUFFER_AT(&a->calls, mica_tool_call)[i];
    return MICA_OK;
}

mica_status mica_answer_get_message(const mica_answer *a, mica_message *message) {
    const size_t bytes = MC_FIRST_BYTES(mica_message, image_count);
    if (!a || !message) return mc_fail(MICA_EINVAL, "mica_answer_get_message: NULL");
    if (message->struct_bytes && message->struct_bytes < bytes)
        return mc_fail(MICA_EINVAL,
                       "mica_answer_get_message: struct_bytes is %zu, want %zu or more, or 0",
                       message->struct_bytes, bytes);
    size_t thoughts;
    mica_message made = {.role = "assistant",
                         .content = mica_answer_text(a, NULL),
                         .thoughts = mica_answer_thoughts(a, &thoughts),
                         .tool_calls = MC_BUFFER_AT(&a->calls, mica_tool_call),
                         .tool_call_count = mica_answer_call_count(a)};
    if (!thoughts) made.thoughts = NULL;
    MC_INFO_COPY(mica_message, image_count, message, &made);
    return MICA_OK;
}

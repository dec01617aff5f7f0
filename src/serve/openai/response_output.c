#include "serve/openai/response_output.h"

#include "serve/openai/response_input.h"

#include <string.h>

#define PART_ADDED "response.content_part.added"
#define PART_DONE "response.content_part.done"
#define SUMMARY "response.reasoning_summary_"

/* How a kind is called: the beginning of its ids, its type, the type of its part, the member that
 * has the part and the one with its number, and its events. */
static const struct {
    const char *name, *type, *part, *member, *number, *added, *delta, *done, *ended;
} kinds[] = {
    [MC_OUTPUT_MESSAGE] = {"msg", "message", "output_text", "content", "content_index", PART_ADDED,
                           "response.output_text.delta", "response.output_text.done", PART_DONE},
    [MC_OUTPUT_REASONING] = {"rs", "reasoning", "reasoning_text", "content", "content_index",
                             PART_ADDED, "response.reasoning_text.delta",
                             "response.reasoning_text.done", PART_DONE},
    [MC_OUTPUT_SUMMARY] = {"rs", "reasoning", "summary_text", "summary", "summary_index",
                           SUMMARY "part.added", SUMMARY "text.delta", SUMMARY "text.done",
                           SUMMARY "part.done"},
    [MC_OUTPUT_CALL] = {.name = "fc",
                        .type = "function_call",
                        .delta = "response.function_call_arguments.delta",
                        .done = "response.function_call_arguments.done"},
};

void mc_response_name(const char *kind, char name[MC_NAME_BYTES]) {
    mc_chance_name(kind, name);
    name[strlen(kind)] = '_';
}

/* ---- objects ---- */

/* The part of the item that is being made; whole: with its text, else it has just begun. */
static void put_part(mc_put *put, const char *key, const mc_response_output *o, bool whole) {
    mc_put_open(put, key, '{');
    mc_put_text(put, "type", kinds[o->open].part);
    if (o->open == MC_OUTPUT_MESSAGE) {
        mc_put_json(put, "annotations", "[]");
        mc_put_open(put, "logprobs", '[');
        if (whole) mc_put_members(put, &o->logprobs);
        mc_put_close(put, ']');
    }
    mc_put_str(put, "text", whole ? (mc_str){o->text.data, o->text.len} : MC_STR(""));
    mc_put_close(put, '}');
}

/* What the item of a call has behind its status; whole: with its arguments. */
static void put_call(mc_put *put, const mc_response_output *o, bool whole) {
    mc_put_text(put, "call_id", o->call_id);
    mc_put_str(put, "name", (mc_str){o->name.data, o->name.len});
    mc_put_str(put, "arguments", whole ? (mc_str){o->text.data, o->text.len} : MC_STR(""));
}

static void put_content(mc_put *put, const mc_response_output *o, bool whole) {
    if (o->open == MC_OUTPUT_REASONING) mc_put_json(put, "summary", "[]");
    mc_put_open(put, kinds[o->open].member, '[');
    if (whole) put_part(put, NULL, o, true);
    mc_put_close(put, ']');
    if (o->open == MC_OUTPUT_MESSAGE)
        mc_put_text(put, "role", "assistant");
    else if (whole && o->sealed.len)
        mc_put_str(put, "encrypted_content", (mc_str){o->sealed.data, o->sealed.len});
}

/* status: of an item that is there whole; NULL: it has just begun. */
static void put_item(mc_put *put, const char *key, const mc_response_output *o,
                     const char *status) {
    mc_put_open(put, key, '{');
    mc_put_text(put, "id", o->id);
    mc_put_text(put, "type", kinds[o->open].type);
    mc_put_text(put, "status", status ? status : "in_progress");
    if (o->open == MC_OUTPUT_CALL)
        put_call(put, o, status != NULL);
    else
        put_content(put, o, status != NULL);
    mc_put_close(put, '}');
}

/* ---- events ---- */

mc_put mc_response_event(mc_response_output *output, const char *type) {
    mc_buffer_clear(&output->event);
    mc_put put = mc_put_into(&output->event);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "type", type);
    mc_put_int(&put, "sequence_number", output->sequence++);
    return put;
}

bool mc_response_send(mc_response_output *output, const char *type, mc_put *put) {
    mc_put_close(put, '}');
    return !put->failed &&
           mc_exchange_event(output->stream, type, output->event.data, output->event.len);
}

/* An event of an item: its beginning or its end. */
static bool send_item(mc_response_output *o, const char *type, const char *status) {
    mc_put put = mc_response_event(o, type);
    mc_put_int(&put, "output_index", (int64_t)o->count);
    put_item(&put, "item", o, status);
    return mc_response_send(o, type, &put);
}

/* Begins an event of the item's part. */
static mc_put begin_part(mc_response_output *o, const char *type) {
    mc_put put = mc_response_event(o, type);
    mc_put_text(&put, "item_id", o->id);
    mc_put_int(&put, "output_index", (int64_t)o->count);
    return put;
}

static bool send_part(mc_response_output *o, const char *type, bool whole) {
    mc_put put = begin_part(o, type);
    mc_put_int(&put, kinds[o->open].number, 0);
    put_part(&put, "part", o, whole);
    return mc_response_send(o, type, &put);
}

/* The next text of the part, or all of it. */
static bool send_text(mc_response_output *o, const char *type, const char *member, mc_str text,
                      const mc_buffer *logprobs) {
    mc_put put = begin_part(o, type);
    mc_put_int(&put, kinds[o->open].number, 0);
    mc_put_str(&put, member, text);
    if (o->open == MC_OUTPUT_MESSAGE) {
        mc_put_open(&put, "logprobs", '[');
        mc_put_members(&put, logprobs);
        mc_put_close(&put, ']');
    }
    return mc_response_send(o, type, &put);
}

/* ---- items ---- */

static bool begin(mc_response_output *o, mc_output_kind kind) {
    o->open = kind;
    if (o->response)
        mc_response_item_name(kinds[kind].name, o->response, false, o->count, o->id);
    else
        mc_response_name(kinds[kind].name, o->id);
    return !o->stream || (send_item(o, "response.output_item.added", NULL) &&
                          (kind == MC_OUTPUT_CALL || send_part(o, kinds[kind].added, false)));
}

/* The next arguments of a call, or all of them. */
static bool send_arguments(mc_response_output *o, bool whole, mc_str text) {
    const char *type = whole ? kinds[o->open].done : kinds[o->open].delta;
    mc_put put = begin_part(o, type);
    if (whole) mc_put_str(&put, "name", (mc_str){o->name.data, o->name.len});
    mc_put_str(&put, whole ? "arguments" : "delta", text);
    return mc_response_send(o, type, &put);
}

static bool send_end(mc_response_output *o, const char *status) {
    const mc_str text = {o->text.data, o->text.len};
    if (o->open == MC_OUTPUT_CALL)
        return send_arguments(o, true, text) && send_item(o, "response.output_item.done", status);
    return send_text(o, kinds[o->open].done, "text", text, &o->logprobs) &&
           send_part(o, kinds[o->open].ended, true) &&
           send_item(o, "response.output_item.done", status);
}

bool mc_response_output_end(mc_response_output *output, bool cut) {
    const char *status = cut ? "incomplete" : "completed";
    if (output->open == MC_OUTPUT_NONE) return true;
    bool thought = output->open == MC_OUTPUT_REASONING || output->open == MC_OUTPUT_SUMMARY;
    const mc_str text = {output->text.data, output->text.len};
    if (thought && !mc_response_seal_make(&output->seal, text, &output->sealed)) return false;
    mc_put put = mc_put_into(&output->items);
    put.comma = output->count > 0;
    put_item(&put, NULL, output, status);
    bool done = !put.failed && (!output->stream || send_end(output, status));
    mc_buffer_clear(&output->text);
    mc_buffer_clear(&output->logprobs);
    output->open = MC_OUTPUT_NONE;
    output->count++;
    return done;
}

/* Adds elements behind others. */
static bool add_elements(mc_buffer *to, const mc_buffer *from) {
    return !from->len ||
           ((!to->len || mc_buffer_add_byte(to, ',')) && mc_buffer_add(to, from->data, from->len));
}

bool mc_response_output_add(mc_response_output *output, mc_output_kind kind, mc_str text,
                            mc_buffer *logprobs) {
    if (output->open != kind && (!mc_response_output_end(output, false) || !begin(output, kind)))
        return false;
    if (!text.len && !logprobs->len) return true;
    bool done = mc_buffer_add(&output->text, text.ptr, text.len) &&
                add_elements(&output->logprobs, logprobs) &&
                (!output->stream || send_text(output, kinds[kind].delta, "delta", text, logprobs));
    mc_buffer_clear(logprobs);
    return done;
}

bool mc_response_output_begin_call(mc_response_output *output, mc_str name) {
    if (!mc_response_output_end(output, false)) return false;
    mc_response_name("call", output->call_id);
    mc_buffer_clear(&output->name);
    return mc_buffer_add(&output->name, name.ptr, name.len) && begin(output, MC_OUTPUT_CALL);
}

bool mc_response_output_more(mc_response_output *output, mc_str arguments) {
    return mc_buffer_add(&output->text, arguments.ptr, arguments.len) &&
           (!output->stream || send_arguments(output, false, arguments));
}

void mc_response_output_deinit(mc_response_output *output) {
    mc_buffer_deinit(&output->items);
    mc_buffer_deinit(&output->name);
    mc_buffer_deinit(&output->sealed);
    mc_buffer_deinit(&output->text);
    mc_buffer_deinit(&output->logprobs);
    mc_buffer_deinit(&output->event);
}

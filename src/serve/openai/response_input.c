#include "serve/openai/response_input.h"

#include "serve/jobs/state.h"
#include "serve/openai/openai.h"

#include <stdio.h>
#include <string.h>

enum { MAX_REFERENCES = 256, DIGITS = 24 }; /* digits of a response's name */

void mc_response_item_name(const char *kind, const char *response, bool input, size_t number,
                           char name[MC_NAME_BYTES]) {
    const char *digits = strchr(response, '_');
    snprintf(name, MC_NAME_BYTES, "%s_%.*s%c%zx", kind, DIGITS, digits ? digits + 1 : response,
             input ? 'i' : 'o', number);
}

static mc_str text_of(mc_json value, const char *member) {
    mc_str text = MC_STR("");
    mc_json_get_str(mc_json_find(value, member), &text);
    return text;
}

/* ---- keeping ---- */

/* The beginning of an item: its id and type. */
static void put_head(mc_put *put, mc_str id, mc_str type, const char *response, size_t number) {
    static const char *const kinds[][2] = {
        {"message", "msg"}, {"reasoning", "rs"}, {"function_call", "fc"}};
    const char *kind = "item";
    char made[MC_NAME_BYTES];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_is(type, kinds[i][0])) kind = kinds[i][1];
    mc_response_item_name(kind, response, true, number, made);
    mc_put_open(put, NULL, '{');
    mc_put_str(put, "id", id.len ? id : mc_str_of(made));
    mc_put_str(put, "type", type);
}

/* A content that is a text, as a part. */
static void put_text(mc_put *put, const char *type, mc_str text) {
    mc_put_open(put, "content", '[');
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "type", type);
    mc_put_str(put, "text", text);
    mc_put_close(put, '}');
    mc_put_close(put, ']');
}

static void put_item(mc_put *put, mc_json item, const char *response, size_t number) {
    mc_str type = text_of(item, "type"), text;
    bool said = mc_str_is(text_of(item, "role"), "assistant");
    if (!type.len) type = MC_STR("message");
    put_head(put, text_of(item, "id"), type, response, number);
    if (!mc_json_exists(mc_json_find(item, "status"))) mc_put_text(put, "status", "completed");
    for (mc_json_iter it = mc_json_begin(item); mc_json_next(&it);) {
        if (mc_str_is(it.key, "id") || mc_str_is(it.key, "type") || !mc_json_exists(it.value))
            continue;
        if (mc_str_is(it.key, "content") && mc_json_get_str(it.value, &text))
            put_text(put, said ? "output_text" : "input_text", text);
        else
            mc_put_member(put, it.key, it.value);
    }
    mc_put_close(put, '}');
}

bool mc_response_input_keep(mc_json input, const char *response, mc_buffer *items) {
    mc_put put = mc_put_into(items);
    mc_str text;
    size_t number = 0;
    if (mc_json_get_str(input, &text)) {
        put_head(&put, MC_STR(""), MC_STR("message"), response, 0);
        mc_put_text(&put, "status", "completed");
        mc_put_text(&put, "role", "user");
        put_text(&put, "input_text", text);
        mc_put_close(&put, '}');
        return !put.failed;
    }
    for (mc_json_iter it = mc_json_begin(input); mc_json_next(&it); number++)
        put_item(&put, it.value, response, number);
    return !put.failed;
}

/* ---- references ---- */

/* The response whose items were looked at last. */
typedef struct kept {
    char id[MC_NAME_BYTES];
    size_t loaded; /* bytes, of all that were looked at */
    mc_json_doc *input, *response;
} kept;

static void forget(kept *k) {
    mc_json_close(&k->input);
    mc_json_close(&k->response);
    k->id[0] = '\0';
}

/* Parses a response's JSON, and its input as an array. */
static mica_status parse(kept *k, const mc_buffer *response, const mc_buffer *input) {
    mc_buffer array = {0};
    mica_status status = MICA_OK;
    if (!mc_buffer_add_byte(&array, '[') || !mc_buffer_add(&array, input->data, input->len) ||
        !mc_buffer_add_byte(&array, ']'))
        status = mc_fail_nomem("an item");
    if (status == MICA_OK) status = mc_json_parse(array.data, array.len, "input", &k->input);
    if (status == MICA_OK)
        status = mc_json_parse(response->data, response->len, "a response", &k->response);
    mc_buffer_deinit(&array);
    return status;
}

/* Loads a response; *found: whether it is there. false: http->failure says why */
static bool load(mc_exchange *http, kept *k, mc_str id, bool *found) {
    mc_buffer response = {0}, input = {0};
    *found = true;
    if (k->id[0] && mc_str_is(id, k->id)) return true;
    forget(k);
    mica_status status = MICA_OK;
    if (!mc_response_store_find(&http->server->responses, http->key, id, &response, &input, NULL,
                                found))
        status = mc_fail_nomem("an item");
    if (status == MICA_OK && *found) status = parse(k, &response, &input);
    if (status == MICA_OK && *found) snprintf(k->id, sizeof k->id, "%.*s", MC_STR_ARG(id));
    k->loaded += response.len + input.len;
    mc_buffer_deinit(&response);
    mc_buffer_deinit(&input);
    return status == MICA_OK || mc_failure_of(&http->failure, status, NULL);
}

static mc_json find_item(mc_json items, mc_str id) {
    for (mc_json_iter it = mc_json_begin(items); mc_json_next(&it);)
        if (mc_str_eq(text_of(it.value, "id"), id)) return it.value;
    return (mc_json){0};
}

/* Writes the item of that id. */
static bool put_kept(mc_exchange *http, kept *k, mc_str id, mc_put *put) {
    char response[MC_NAME_BYTES];
    size_t at = 0;
    bool found = false;
    mc_json item = {0};
    while (at < id.len && id.ptr[at] != '_')
        at++;
    if (id.len > at + DIGITS && id.len < MC_NAME_BYTES) {
        int len = snprintf(response, sizeof response, "resp_%.*s", DIGITS, id.ptr + at + 1);
        if (!load(http, k, (mc_str){response, (size_t)len}, &found)) return false;
    }
    if (found) item = find_item(mc_json_root(k->input), id);
    if (found && !mc_json_exists(item))
        item = find_item(mc_json_find(mc_json_root(k->response), "output"), id);
    if (!mc_json_exists(item))
        return mc_failure_set(&http->failure, 404, "item_not_found", "input",
                              "there is no item %.*s, or no longer: only items of responses that "
                              "are stored are kept",
                              (int)(id.len < 60 ? id.len : 60), id.ptr);
    mc_put_value(put, NULL, item);
    return true;
}

static bool is_reference(mc_json item) {
    mc_str type = text_of(item, "type");
    bool bare = !type.len && mc_json_exists(mc_json_find(item, "id")) &&
                !mc_json_exists(mc_json_find(item, "role"));
    return bare || mc_str_is(type, "item_reference");
}

/* Refuses what a reference has besides its id. */
static bool check_reference(mc_exchange *http, mc_json item, size_t i) {
    for (mc_json_iter it = mc_json_begin(item); mc_json_next(&it);)
        if (!mc_str_is(it.key, "type") && !mc_str_is(it.key, "id") && mc_json_exists(it.value))
            return mc_failure_set(&http->failure, 400, "unsupported_field", "input",
                                  "input[%zu].%.*s is not supported", i,
                                  (int)(it.key.len < 60 ? it.key.len : 60), it.key.ptr);
    return true;
}

/* A few bytes may refer to many, and again and again: what they stand for has the limit of a body
 * that says it all. */
static bool check_bytes(mc_exchange *http, const kept *k, const mc_put *put, uint64_t max) {
    enum { LOADED_FOR_EACH = 4 }; /* bytes that are looked at for a byte that may be taken */
    return (put->out->len <= max &&
            k->loaded / LOADED_FOR_EACH <= http->server->options.max_body) ||
           mc_failure_set(&http->failure, 413, "body_too_large", "input",
                          "input: the items that it refers to are too long together");
}

static bool put_resolved(mc_exchange *http, mc_json input, uint64_t max, mc_put *put) {
    kept k = {.input = NULL};
    size_t i = 0, references = 0;
    bool done = true;
    mc_put_open(put, NULL, '[');
    for (mc_json_iter it = mc_json_begin(input); done && mc_json_next(&it); i++) {
        if (!is_reference(it.value)) {
            mc_put_value(put, NULL, it.value);
        } else if (++references > MAX_REFERENCES) {
            done = mc_failure_set(&http->failure, 400, "invalid_value", "input",
                                  "input: want %d references to items or fewer", MAX_REFERENCES);
        } else {
            done = check_reference(http, it.value, i) &&
                   put_kept(http, &k, text_of(it.value, "id"), put) &&
                   check_bytes(http, &k, put, max);
        }
    }
    mc_put_close(put, ']');
    forget(&k);
    return done;
}

bool mc_response_input_resolve(mc_exchange *http, mc_json input, uint64_t max, mc_json_doc **doc) {
    mc_buffer text = {0};
    mc_put put = mc_put_into(&text);
    bool some = false;
    *doc = NULL;
    if (mc_json_get_type(input) == MC_JSON_ARRAY)
        for (mc_json_iter it = mc_json_begin(input); !some && mc_json_next(&it);)
            some = is_reference(it.value);
    if (!some) return true;
    bool done = put_resolved(http, input, max, &put);
    if (done) {
        mica_status status = put.failed ? mc_fail_nomem("the input")
                                        : mc_json_parse(text.data, text.len, "input", doc);
        done = status == MICA_OK || mc_failure_of(&http->failure, status, "input");
    }
    mc_buffer_deinit(&text);
    return done;
}

/* ---- the list ---- */

enum { QUERY_AFTER, QUERY_LIMIT, QUERY_ORDER };

enum { LIMIT = 20, MAX_LIMIT = 100 };

/* Items first to end, in the order of the input. */
typedef struct page {
    mc_json items[MAX_LIMIT];
    size_t first, end, count; /* count: of all items */
    bool ascending;
} page;

/* Finds a page of up to `limit` items behind the one called `after`; NULL: from the beginning.
 * false: there is no such item. */
static bool find_page(mc_json items, const char *after, size_t limit, page *p) {
    size_t number = 0, at = 0;
    bool found = !after;
    p->count = mc_json_count(items);
    for (mc_json_iter it = mc_json_begin(items); !found && mc_json_next(&it); number++) {
        found = mc_str_is(text_of(it.value, "id"), after);
        at = number;
    }
    if (p->ascending) {
        p->first = after ? at + 1 : 0;
        p->end = p->count - p->first > limit ? p->first + limit : p->count;
    } else {
        p->end = after ? at : p->count;
        p->first = p->end > limit ? p->end - limit : 0;
    }
    number = 0;
    for (mc_json_iter it = mc_json_begin(items); found && mc_json_next(&it); number++)
        if (number >= p->first && number < p->end) p->items[number - p->first] = it.value;
    return found;
}

static void put_page(mc_put *put, const page *p) {
    size_t n = p->end - p->first;
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "object", "list");
    mc_put_open(put, "data", '[');
    for (size_t i = 0; i < n; i++)
        mc_put_value(put, NULL, p->items[p->ascending ? i : n - 1 - i]);
    mc_put_close(put, ']');
    for (int last = 0; last < 2; last++) {
        size_t at = (last == 1) == p->ascending ? n - 1 : 0;
        mc_put_str(put, last ? "last_id" : "first_id",
                   n ? text_of(p->items[at], "id") : MC_STR(""));
    }
    mc_put_bool(put, "has_more", p->ascending ? p->end < p->count : p->first > 0);
    mc_put_close(put, '}');
}

bool mc_response_input_list(mc_exchange *http, mc_str id) {
    const char *after = http->query[QUERY_AFTER], *order = http->query[QUERY_ORDER];
    page p = {.ascending = order && strcmp(order, "asc") == 0};
    size_t limit = LIMIT;
    bool found;
    kept k = {.input = NULL};
    if (!mc_openai_read_limit(http->query[QUERY_LIMIT], MAX_LIMIT, &limit, &http->failure))
        return false;
    if (order && !p.ascending && strcmp(order, "desc") != 0)
        return mc_failure_set(&http->failure, 400, "invalid_value", "order",
                              "order: want asc or desc");
    if (!load(http, &k, id, &found)) {
        forget(&k);
        return false;
    }
    if (!found)
        return mc_failure_set(&http->failure, 404, "response_not_found", "id",
                              "there is no response %.*s, or no longer",
                              (int)(id.len < 60 ? id.len : 60), id.ptr);
    bool known = find_page(mc_json_root(k.input), after, limit, &p);
    mc_put put = mc_put_into(&http->out);
    if (known) put_page(&put, &p);
    forget(&k);
    if (!known)
        return mc_failure_set(&http->failure, 400, "item_not_found", "after",
                              "after: there is no such item");
    return mc_exchange_send(http, &put);
}

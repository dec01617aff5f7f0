/* /v1/models: the models that requests may name, as OpenAI's and Anthropic's APIs list them: each
 * has the members of both. */
#include "serve/common/put_time.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"
#include "serve/openai/openai.h"

#include <string.h>

/* 0: there is no limit, or it is known when the model is loaded */
static void put_tokens(mc_put *put, const char *key, int64_t tokens) {
    if (tokens)
        mc_put_int(put, key, tokens);
    else
        mc_put_null(put, key);
}

static void put_model(mc_put *put, const mc_model_row *row) {
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "id", row->name);
    mc_put_text(put, "object", "model");
    mc_put_int(put, "created", row->time);
    mc_put_text(put, "owned_by", "mica");
    mc_put_text(put, "root", row->base ? row->base : row->name);
    mc_put_text(put, "parent", row->base);
    mc_put_bool(put, "loaded", row->loaded);
    put_tokens(put, "max_model_len", row->info.context_length);
    mc_put_text(put, "type", "model");
    mc_put_text(put, "display_name", row->name);
    mc_put_time(put, "created_at", row->time);
    put_tokens(put, "max_input_tokens", row->info.context_length);
    put_tokens(put, "max_tokens", row->max_tokens);
    mc_put_null(put, "capabilities");
    mc_put_close(put, '}');
}

/* ---- pages, as Anthropic's API has them ---- */

enum { QUERY_LIMIT, QUERY_AFTER, QUERY_BEFORE };

typedef struct model_page {
    size_t first, end; /* of the rows */
    bool more;         /* there are others in the direction that was asked for */
} model_page;

/* The place of the row that a query's argument names; NULL: `absent`. */
static bool find_row(const char *name, const char *field, const mc_model_row *rows, size_t count,
                     size_t absent, size_t *place, mc_failure *failure) {
    *place = absent;
    if (!name) return true;
    for (*place = 0; *place < count; ++*place)
        if (strcmp(rows[*place].name, name) == 0) return true;
    return mc_failure_set(failure, 400, "model_not_found", field, "%s: there is no model %.60s",
                          field, name);
}

static bool find_page(const mc_exchange *http, const mc_model_row *rows, size_t count,
                      model_page *page, mc_failure *failure) {
    enum { MAX_LIMIT = 1000 };
    const char *after = http->query[QUERY_AFTER], *before = http->query[QUERY_BEFORE];
    size_t limit = count, place;
    if (!mc_openai_read_limit(http->query[QUERY_LIMIT], MAX_LIMIT, &limit, failure) ||
        !find_row(after, "after_id", rows, count, 0, &place, failure) ||
        !find_row(before, "before_id", rows, count, count, &page->end, failure))
        return false;
    page->first = after ? place + 1 : 0;
    if (page->end < page->first) page->end = page->first;
    bool backwards = before && !after;
    if (page->end - page->first > limit) {
        if (backwards)
            page->first = page->end - limit;
        else
            page->end = page->first + limit;
    }
    page->more = backwards ? page->first > 0 : page->end < count;
    return true;
}

static bool list(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_arena arena = {0};
    mc_model_row *rows;
    size_t count;
    model_page page = {0};
    mica_status status = mc_models_list(&http->server->models, &arena, &rows, &count);
    bool done = status == MICA_OK ? find_page(http, rows, count, &page, &http->failure)
                                  : mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    if (done) {
        size_t n = page.end - page.first;
        mc_put_open(&put, NULL, '{');
        mc_put_text(&put, "object", "list");
        mc_put_open(&put, "data", '[');
        for (size_t i = page.first; i < page.end; i++)
            put_model(&put, &rows[i]);
        mc_put_close(&put, ']');
        mc_put_bool(&put, "has_more", page.more);
        mc_put_bool(&put, "downloads", http->server->options.downloads);
        mc_put_text(&put, "first_id", n ? rows[page.first].name : NULL);
        mc_put_text(&put, "last_id", n ? rows[page.end - 1].name : NULL);
        mc_put_close(&put, '}');
    }
    mc_arena_deinit(&arena);
    return done && mc_exchange_send(http, &put);
}

static bool retrieve(mc_exchange *http) {
    mc_put put = mc_put_into(&http->out);
    mc_arena arena = {0};
    mc_model_row row;
    bool found =
        mc_models_row(&http->server->models, mc_str_of(http->tail), &arena, &row, &http->failure);
    if (found) put_model(&put, &row);
    mc_arena_deinit(&arena);
    return found && mc_exchange_send(http, &put);
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("GET", "/v1/models", list, .query = "limit after_id before_id",
                .help = "the models that requests may name: those that are loaded, and those that "
                        "will be when they are asked for; `loaded` says which, `parent` is what an "
                        "adapter is for, `downloads` whether /api/pull may add others. Up to limit "
                        "(all) of those behind after_id, or before before_id"),
    MC_ENDPOINT("GET", "/v1/models/*", retrieve, .help = "one of them, by its name"),
};

const mc_endpoint_list mc_endpoints_models = {"Models", endpoints,
                                              sizeof endpoints / sizeof *endpoints};

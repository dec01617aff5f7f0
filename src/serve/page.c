/* The page at "/": it is for people whose browser knows no key yet, and holds nothing secret. */
#include "serve/page.h"

#include "serve/endpoint.h"
#include "serve/state.h"

static bool page(mc_exchange *http) {
    if (!mc_buffer_add(&http->out, mc_page, mc_page_bytes))
        return mc_failure_of(&http->failure, mc_fail_nomem("the page"), NULL);
    mc_exchange_header(http, "Content-Security-Policy", mc_page_policy);
    mc_exchange_header(http, "ETag", mc_page_etag);
    mc_exchange_header(http, "Cache-Control", "no-cache"); /* the next mica has another */
    mc_exchange_header(http, "X-Content-Type-Options", "nosniff");
    mc_exchange_reply(http, 200, "text/html; charset=utf-8");
    return true;
}

static const mc_endpoint endpoints[] = {
    {.method = "GET",
     .path = "/",
     .flags = MC_ENDPOINT_OPEN | MC_ENDPOINT_AT_ONCE | MC_ENDPOINT_ALWAYS,
     .handle = page,
     .help = "a page to talk on, for browsers"},
};

const mc_endpoint_list mc_endpoints_page = {"The page", endpoints,
                                            sizeof endpoints / sizeof *endpoints};

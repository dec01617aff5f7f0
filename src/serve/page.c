/* The page at "/": it is for people whose browser knows no key yet, and holds nothing secret. */
#include "serve/page.h"

#include "io/deflate.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"

/* Clients that do not take gzip get it unpacked. */
static mica_status put_plain(mc_buffer *out) {
    if (!mc_buffer_reserve(out, mc_page_plain_bytes)) return mc_fail_nomem("the page");
    MC_TRY(mc_inflate("the page", mc_page + MC_PAGE_HEAD,
                      mc_page_bytes - MC_PAGE_HEAD - MC_PAGE_TAIL, (uint8_t *)out->data + out->len,
                      mc_page_plain_bytes, true));
    out->len += mc_page_plain_bytes;
    return MICA_OK;
}

static bool page(mc_exchange *http) {
    bool packed = mc_page_plain_bytes > 0, as_gzip = packed && http->takes_gzip;
    mica_status status = MICA_OK;
    if (packed && !as_gzip)
        status = put_plain(&http->out);
    else if (!mc_buffer_add(&http->out, mc_page, mc_page_bytes))
        status = mc_fail_nomem("the page");
    if (status != MICA_OK) return mc_failure_of(&http->failure, status, NULL);
    if (as_gzip) mc_exchange_header(http, "Content-Encoding", "gzip");
    mc_exchange_header(http, "Vary", "Accept-Encoding");
    mc_exchange_header(http, "Content-Security-Policy", mc_page_policy);
    mc_exchange_header(http, "ETag", as_gzip ? mc_page_gzip_etag : mc_page_etag);
    mc_exchange_header(http, "Cache-Control", "no-cache"); /* the next mica has another */
    mc_exchange_header(http, "X-Content-Type-Options", "nosniff");
    mc_exchange_reply(http, 200, "text/html; charset=utf-8");
    return true;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("GET", "/", page,
                .flags = MC_ENDPOINT_OPEN | MC_ENDPOINT_AT_ONCE | MC_ENDPOINT_ALWAYS,
                .help = "a page to talk on, for browsers"),
};

const mc_endpoint_list mc_endpoints_page = {"The page", endpoints,
                                            sizeof endpoints / sizeof *endpoints};

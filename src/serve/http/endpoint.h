/* All endpoints: the lists of endpoint_list.h. Threads: any. */
#ifndef SERVE_HTTP_ENDPOINT_H
#define SERVE_HTTP_ENDPOINT_H

#include "serve/http/exchange.h"

/* The endpoints of one file, under a heading of docs/serve.md. */
typedef struct mc_endpoint_list {
    const char *title;
    const mc_endpoint *endpoints; /* [count] */
    size_t count;
} mc_endpoint_list;

#define ENDPOINTS(name) extern const mc_endpoint_list mc_endpoints_##name;
#include "serve/http/endpoint_list.h"

/* The i-th list; NULL past the end. */
const mc_endpoint_list *mc_endpoint_list_at(size_t i);

/* Finds what answers a request: the longest path that fits.
 *
 *  tail     receives what the path's star stands for
 *  failure  receives 404 or 405
 *  returns  NULL: there is none; failure says why */
const mc_endpoint *mc_endpoint_find(const char *method, const char *path, const char **tail,
                                    mc_failure *failure);

/* The form of errors about a path that has no such method, or is none: that of the endpoint whose
 * path is alike for the most parts. */
mc_api mc_endpoint_api(const char *path);

#endif

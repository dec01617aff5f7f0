#include "serve/http/endpoint.h"

#include <stdio.h>
#include <string.h>

static const mc_endpoint_list *const lists[] = {
#define ENDPOINTS(name) &mc_endpoints_##name,
#include "serve/http/endpoint_list.h"
};

const mc_endpoint_list *mc_endpoint_list_at(size_t i) {
    return i < sizeof lists / sizeof *lists ? lists[i] : NULL;
}

/* The length of the part of a path that fits an endpoint's; 0: it does not fit. */
static size_t fits(const char *pattern, const char *path) {
    size_t len = strlen(pattern);
    if (pattern[len - 1] != '*') return strcmp(pattern, path) == 0 ? len + 1 : 0;
    return strncmp(pattern, path, len - 1) == 0 && path[len - 1] ? len - 1 : 0;
}

static bool has_method(const mc_endpoint *endpoint, const char *method) {
    if (strcmp(endpoint->method, method) == 0) return true;
    return strcmp(method, "HEAD") == 0 && strcmp(endpoint->method, "GET") == 0;
}

/* The endpoint of a method and a path. methods: receives those of the path, if it has another one;
 * the longest pattern that fits is the endpoint's. */
static const mc_endpoint *find_endpoint(const char *method, const char *path, char *methods,
                                        size_t bytes) {
    const mc_endpoint *best = NULL;
    size_t best_fit = 0, len = 0;
    methods[0] = '\0';
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const mc_endpoint *at = &lists[l]->endpoints[i];
            size_t fit = fits(at->path, path);
            if (!fit) continue;
            if (has_method(at, method) && fit > best_fit) {
                best = at;
                best_fit = fit;
            } else if (!has_method(at, method) && !strstr(methods, at->method) && len < bytes) {
                len += (size_t)snprintf(methods + len, bytes - len, "%s%s", len ? ", " : "",
                                        at->method);
            }
        }
    }
    return best;
}

/* Clients put paths behind an address, which some of them want with /v1 and some without. */
static void fail_unknown(const char *method, const char *path, mc_failure *failure) {
    char methods[sizeof failure->allow], with[256];
    const char *meant = strncmp(path, "/v1/", 4) == 0 ? path + 3 : with;
    snprintf(with, sizeof with, "/v1%.200s", path);
    if (find_endpoint(method, meant, methods, sizeof methods))
        mc_failure_set(failure, 404, "unknown_url", NULL,
                       "there is no %.200s here; did you mean %.200s?", path, meant);
    else
        mc_failure_set(failure, 404, "unknown_url", NULL, "there is no %.200s here", path);
}

const mc_endpoint *mc_endpoint_find(const char *method, const char *path, const char **tail,
                                    mc_failure *failure) {
    char methods[sizeof failure->allow];
    const mc_endpoint *found = find_endpoint(method, path, methods, sizeof methods);
    if (found) {
        *tail = found->path[strlen(found->path) - 1] == '*' ? path + strlen(found->path) - 1 : "";
        return found;
    }
    if (!methods[0]) {
        fail_unknown(method, path, failure);
        return NULL;
    }
    mc_failure_set(failure, 405, "method_not_allowed", NULL,
                   "%s is not a method of %.200s, which takes %s",
                   strcmp(method, "other") == 0 ? "this" : method, path, methods);
    snprintf(failure->allow, sizeof failure->allow, "%s", methods);
    return NULL;
}

/* How much of a path is that of an endpoint, in whole parts. */
static size_t alike(const char *pattern, const char *path) {
    size_t n = 0, parts = 0;
    for (; path[n] && path[n] == pattern[n]; n++)
        if (path[n] == '/') parts = n;
    return path[n] || pattern[n] ? parts : n + 1;
}

mc_api mc_endpoint_api(const char *path) {
    mc_api api = MC_API_OPENAI;
    size_t most = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < lists[l]->count; i++) {
            size_t n = alike(lists[l]->endpoints[i].path, path);
            if (n <= most) continue;
            most = n;
            api = lists[l]->endpoints[i].api;
        }
    return api;
}

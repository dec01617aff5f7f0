#include "serve/endpoint.h"

#include <string.h>

static const mc_endpoint_list *const lists[] = {
#define ENDPOINTS(name) &mc_endpoints_##name,
#include "serve/endpoint_list.h"
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

const mc_endpoint *mc_endpoint_find(const char *method, const char *path, const char **tail,
                                    mc_failure *failure) {
    const mc_endpoint *best = NULL, *other = NULL;
    size_t best_fit = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const mc_endpoint *at = &lists[l]->endpoints[i];
            size_t fit = fits(at->path, path);
            if (!fit) continue;
            if (!has_method(at, method)) {
                other = at;
            } else if (fit > best_fit) {
                best = at;
                best_fit = fit;
            }
        }
    }
    if (best) {
        *tail = best->path[strlen(best->path) - 1] == '*' ? path + strlen(best->path) - 1 : "";
        return best;
    }
    if (other)
        mc_failure_set(failure, 405, "method_not_allowed", NULL, "%s is not a method of %.200s",
                       method, path);
    else
        mc_failure_set(failure, 404, "unknown_url", NULL, "there is no %.200s here", path);
    return NULL;
}

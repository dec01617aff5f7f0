/* A build without libmicrohttpd. */
#include "base/status.h"

#include <mica/serve.h>

mica_status mica_server_open(const mica_server_options *options, mica_server **server) {
    (void)options;
    if (server) *server = NULL;
    return mc_fail(MICA_EUNSUPPORTED,
                   "cannot serve: mica was built without libmicrohttpd. Install it (Debian: "
                   "libmicrohttpd-dev, Fedora: libmicrohttpd-devel, Homebrew: libmicrohttpd) and "
                   "build mica again");
}

mica_status mica_server_add(mica_server *server, const char *name, const mica_model *model,
                            const mica_serving_options *options) {
    (void)server, (void)name, (void)model, (void)options;
    return mc_fail(MICA_EINVAL, "mica_server_add: server is NULL");
}

mica_status mica_server_load(mica_server *server, const mica_loading_options *options) {
    (void)server, (void)options;
    return mc_fail(MICA_EINVAL, "mica_server_load: server is NULL");
}

mica_status mica_server_follow(const mica_loading_options *options) {
    mica_server *server;
    (void)options;
    return mica_server_open(NULL, &server);
}

void mica_server_under_way(const mica_server *server, int *requests, int *batches) {
    (void)server;
    if (requests) *requests = 0;
    if (batches) *batches = 0;
}

const char *mica_server_address(const mica_server *server) {
    (void)server;
    return "";
}

mica_status mica_server_run(mica_server *server) {
    (void)server;
    return mc_fail(MICA_EINVAL, "mica_server_run: server is NULL");
}

void mica_server_stop(mica_server *server) {
    (void)server;
}

void mica_server_close(mica_server **server) {
    (void)server;
}

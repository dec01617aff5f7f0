/* /health: whether the server answers. */
#include "serve/http/endpoint.h"
#include "serve/jobs/state.h"

static bool health(mc_exchange *http) {
    mica_server *server = http->server;
    const char *status = "ok";
    if (!mc_models_ready(&server->models)) status = "loading";
    if (atomic_load(&server->draining)) status = "draining";
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "status", status);
    mc_put_close(&put, '}');
    if (put.failed) return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, status[0] == 'o' ? 200 : 503, NULL);
    return true;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("GET", "/health", health,
                .flags = MC_ENDPOINT_OPEN | MC_ENDPOINT_AT_ONCE | MC_ENDPOINT_ALWAYS,
                .help = "200 once the models that were named are loaded; 503 before, and while the "
                        "server is being stopped"),
};

const mc_endpoint_list mc_endpoints_health = {"The server", endpoints,
                                              sizeof endpoints / sizeof *endpoints};

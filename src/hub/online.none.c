/* A build without libcurl or OpenSSL. */
#include "hub/pull.h"

#include <mica/serve.h>

mica_status mc_pull_online(mc_pull *pull, char commit[MC_COMMIT_TEXT]) {
    (void)commit;
    return mc_fail(MICA_EUNSUPPORTED,
                   "cannot download %s: mica was built without libcurl or OpenSSL. Download it "
                   "with another program, such as hf download",
                   pull->name);
}

mica_status mica_server_ask(const char *address, const char *method, const char *path,
                            const char *body, const mica_ask_options *options, int *status,
                            char **answer) {
    (void)method, (void)path, (void)body, (void)options;
    if (status) *status = 0;
    if (answer) *answer = NULL;
    return mc_fail(MICA_EUNSUPPORTED,
                   "cannot ask %s: mica was built without libcurl or OpenSSL. Ask it with another "
                   "program, such as curl",
                   address ? address : "a server");
}

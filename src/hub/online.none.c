/* A build without libcurl or OpenSSL. */
#include "hub/pull.h"

mica_status mc_pull_online(mc_pull *pull, char commit[MC_COMMIT_TEXT]) {
    (void)commit;
    return mc_fail(MICA_EUNSUPPORTED,
                   "cannot download %s: mica was built without libcurl or OpenSSL. Download it "
                   "with another program, such as hf download",
                   pull->name);
}

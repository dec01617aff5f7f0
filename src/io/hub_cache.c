#include "io/hub_cache.h"

#include "base/alloc.h"
#include "base/filemap.h"

#include <stdlib.h>

static mica_status no_memory(void) {
    return mc_fail_nomem("the path of the Hugging Face cache");
}

mica_status mc_hub_home_find(const char *below, char **path) {
    /* $HF_HOME: the folder of what Hugging Face's programs keep (default: huggingface in
     * $XDG_CACHE_HOME) */
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"HF_HOME", ""}, {"XDG_CACHE_HOME", "huggingface"}, {"HOME", ".cache/huggingface"}};
    *path = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !*value) continue;
        char *home = mc_path_join(value, places[i].below);
        *path = home ? mc_path_join(home, below) : NULL;
        mc_free(home);
        return *path ? MICA_OK : no_memory();
    }
    return MICA_OK;
}

mica_status mc_hub_cache_find(char **path) {
    /* $HF_HUB_CACHE: the folder of downloaded models (default: hub in $HF_HOME) */
    const char *value = getenv("HF_HUB_CACHE");
    if (!value || !*value) return mc_hub_home_find("hub", path);
    *path = mc_path_join(value, "");
    return *path ? MICA_OK : no_memory();
}

#include "engine/engine.h"
#include "io/folder.h"

#include <stdio.h>
#include <string.h>

static const mc_engine *const engines[] = {
#define ENGINE(name) &mc_engine_##name,
#include "engine/engine_list.h"
};

#define ENGINE_COUNT (sizeof engines / sizeof *engines)

static mica_status no_engine(const char *name) {
    char known[128] = "";
    size_t len = 0;
    for (size_t i = 0; i < ENGINE_COUNT && len < sizeof known; i++)
        len +=
            (size_t)snprintf(known + len, sizeof known - len, i ? ", %s" : "%s", engines[i]->name);
    return mc_fail(MICA_EINVAL, "there is no engine \"%s\"; the engines are: %s", name, known);
}

mica_status mc_engine_find(const char *name, const char *folder, const mc_engine **engine) {
    for (size_t i = 0; i < ENGINE_COUNT; i++)
        if (name ? strcmp(engines[i]->name, name) == 0 : engines[i]->takes(folder)) {
            *engine = engines[i];
            return MICA_OK;
        }
    if (name) return no_engine(name);
    MC_TRY(mc_model_folder_check(folder));
    return mc_fail(MICA_EUNSUPPORTED, "%s: no engine takes this folder", folder);
}

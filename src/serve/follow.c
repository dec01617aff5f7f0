/* Ranks other than 0 of a server. */
#include "schedule/follow.h"

#include "base/options.h"
#include "device/device.h"
#include "engine/model.h"
#include "group/group.h"

#include <mica/serve.h>

#include <string.h>

typedef struct models {
    const mica_loading_options *loading;
    mica_model_options options;
    mica_device *device; /* that they share; NULL: none so far */
} models;

static mica_status find_folder(const models *m, const char *name, size_t len, const char **folder) {
    for (size_t i = 0; i < m->loading->count; i++) {
        const char *known = m->loading->names[i];
        *folder = m->loading->folders[i];
        if (known && strlen(known) == len && memcmp(known, name, len) == 0) return MICA_OK;
    }
    return mc_fail(MICA_EINVAL, "no model is called %.*s here", (int)len, name);
}

static mica_status find_adapter(const models *m, const char *name, const char **folder) {
    for (size_t i = 0; i < m->loading->adapter_count; i++) {
        *folder = m->loading->adapter_folders[i];
        if (strcmp(m->loading->adapter_names[i], name) == 0) return MICA_OK;
    }
    return mc_fail(MICA_EINVAL, "no adapter is called %s here", name);
}

/* Models as rank 0 calls them: "BASE" or "BASE:ADAPTER". One that is missing is told to all by
 * opening it as what it is not. */
static mica_status open_model(void *context, const char *name, mica_model **model) {
    models *m = context;
    const char *folder, *adapter = NULL;
    mica_model_options options = m->options;
    bool whole = find_folder(m, name, strlen(name), &folder) == MICA_OK;
    const char *colon = whole ? NULL : strrchr(name, ':');
    mica_status status = MICA_OK;
    if (!whole) status = find_folder(m, name, colon ? (size_t)(colon - name) : 0, &folder);
    if (status == MICA_OK && colon) status = find_adapter(m, colon + 1, &adapter);
    if (status == MICA_OK && colon) options.adapter = adapter;
    MC_TRY(mc_model_open(status == MICA_OK ? folder : name, &options, m->device, model));
    if (m->device || !mica_model_device(*model)) return MICA_OK;
    m->device = mica_model_device(*model);
    mc_device_retain(m->device);
    return MICA_OK;
}

mica_status mica_server_follow(const mica_loading_options *options) {
    mica_loading_options given;
    models m = {.loading = &given};
    mc_team *team;
    MC_TRY(MC_OPTIONS_COPY(mica_loading_options, memory_bytes, &given, options));
    if (given.model)
        MC_TRY(MC_OPTIONS_COPY(mica_model_options, pipeline_parallel, &m.options, given.model));
    if (mica_group_rank(m.options.group) == 0)
        return mc_fail(MICA_EINVAL, "mica_server_follow: of ranks behind 0 of a group");
    MC_TRY(mc_group_end_on(m.options.group, mc_team_open(m.options.group, &team)));
    mica_status status = mc_follow(team, open_model, &m);
    mc_team_close(&team);
    if (m.device) mc_device_release(m.device);
    return status;
}

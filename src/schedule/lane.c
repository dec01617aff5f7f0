#include "schedule/lane.h"

#include "base/alloc.h"
#include "device/device.h"
#include "group/group.h"

int mc_lane_count(const mc_session_model *local, int rows) {
    const mc_lm *lm = local->lm;
    int stages = mica_group_size(lm->stages);
    if (stages < mica_group_size(lm->group) || local->device->backend->join) return 1;
    return stages < rows ? stages : rows;
}

/* Groups of the same ranks as the model's. */
static mica_status open_groups(mc_lm *lm, const mc_lm *of) {
    MC_TRY(mica_group_split(of->group, 0, mica_group_rank(of->group), &lm->group));
    MC_TRY(mica_group_split(lm->group, 0, mica_group_rank(of->stages), &lm->stages));
    lm->head.group = lm->group;
    mica_group *const all[] = {of->group, of->stages, lm->group, lm->stages};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mc_group_sleep(all[i]);
    return MICA_OK;
}

mica_status mc_lane_open(const mc_session_model *local, mc_lane **out) {
    mc_lane *lane = *out = mc_calloc(1, sizeof *lane);
    mc_lm *lm = lane ? mc_alloc(sizeof *lm) : NULL;
    mica_status status =
        mc_group_outcome(local->lm->group, lm ? MICA_OK : mc_fail_nomem("a lane of a pipeline"));
    if (lm) {
        *lm = *local->lm;
        lm->group = lm->stages = NULL;
        lane->lm = lm;
        lane->local = *local;
        lane->local.lm = lm;
    }
    if (status == MICA_OK) status = open_groups(lm, local->lm);
    if (status == MICA_OK)
        status = mc_group_outcome(local->lm->group, mc_team_open(lm->group, &lane->team));
    if (status != MICA_OK) mc_lane_close(out);
    return status;
}

void mc_lane_close(mc_lane **lane) {
    if (!lane || !*lane) return;
    mc_lane *l = *lane;
    mc_team_close(&l->team);
    if (l->lm) mc_group_release(l->lm->stages);
    if (l->lm) mc_group_release(l->lm->group);
    mc_free(l->lm);
    mc_free(l);
    *lane = NULL;
}

/* Lanes of a pipeline: several schedules of one model over ranks, that take turns.
 *
 * A step of decoding goes through one stage after the other, and each waits for all others. With as
 * many lanes as stages each stage has work: a lane has some of the rows, caches of their own, a
 * thread on each rank and groups of its own, so collectives of two lanes never meet. The weights
 * are those of the model. What computes collectives on a GPU's stream would wait for ranks that
 * wait for it, so there lanes are none; nor are they where ranks have parts of matrices.
 *
 * Threads: one a lane. */
#ifndef SCHEDULE_LANE_H
#define SCHEDULE_LANE_H

#include "session/lead.h"
#include "session/session.h"

enum { MC_LANE_MODEL = 1 }; /* its number in the lane's team */

typedef struct mc_lane {
    mc_team *team;          /* of the lane's group */
    mc_lm *lm;              /* the model's, with the lane's groups */
    mc_session_model local; /* of lm */
} mc_lane;

/* How many lanes a model of these ranks has, of up to `rows` rows; 1: it has none beside itself. */
int mc_lane_count(const mc_session_model *local, int rows);

/* Opens a lane of a model; all ranks call it together, and all get the same status.
 *  local    borrowed until the lane is closed
 *  errors   MICA_EDEVICE a rank is gone; MICA_ENOMEM */
mica_status mc_lane_open(const mc_session_model *local, mc_lane **lane);
void mc_lane_close(mc_lane **lane); /* takes NULL inside */

#endif

/* Ranks behind rank 0 of a server: they repeat what it tells them (session/lead.h).
 *
 * A rank keeps sessions and a pool of caches for each model, as rank 0's schedule does, and answers
 * nobody: tokens are drawn on rank 0. It compares what came of each op with what rank 0 got.
 *
 * Threads: one. */
#ifndef SCHEDULE_FOLLOW_H
#define SCHEDULE_FOLLOW_H

#include "session/lead.h"

#include <mica/model.h>

/* Opens the model that rank 0 calls `name`; both do so together. */
typedef mica_status mc_follow_open(void *context, const char *name, mica_model **model);

/* Follows until rank 0 ends the team.
 *  errors  MICA_EDEVICE a rank is gone; MICA_EINTERNAL an op came to another end here than on
 *          rank 0: the text has both; MICA_EFORMAT rank 0 speaks otherwise; MICA_ENOMEM */
mica_status mc_follow(mc_team *team, mc_follow_open *open, void *context);

#endif

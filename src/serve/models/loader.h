/* The thread that loads the models of a server, and closes them (serve/models/models.h says
 * when). The models' lock is held in all calls but those of mc_loader_start, mc_loader_end,
 * mc_served_open and mc_served_free. */
#ifndef SERVE_MODELS_LOADER_H
#define SERVE_MODELS_LOADER_H

#include "serve/models/served.h"

/* Until this long after a load has failed, its failure answers who asks for the model. */
enum { MC_FAILED_US = 5000000 };

/* Starts it. errors  MICA_ENOMEM */
mica_status mc_loader_start(mc_models *models);

/* Ends it, and the load under way. Those who wait are refused; each is added to the handlers. */
void mc_loader_end(mc_models *models);

/* Opens what computes the answers of a model. After an error nothing is open.
 *  model        taken over: a reference of mc_model_retain
 *  cache_bytes  budget of its caches; 0: the schedule's default */
mica_status mc_served_open(mc_served *served, const mica_model *model, uint64_t cache_bytes);

/* Frees an entry, after it closed what is open of it. No other thread has it. */
void mc_served_free(mc_served *served);

/* Closes a loaded model without references, without the lock meanwhile. */
void mc_loader_close(mc_models *models, mc_served *served);

/* Gives a request that waits, and is in the list no more, its model or a failure, and adds it to
 * the handlers. */
void mc_loader_settle(mc_models *models, mc_served *served, mc_exchange *http);

/* Whether a request that waits has done so for longer than it may. */
bool mc_loader_is_late(const mc_served *served, const mc_exchange *http);

/* Whether its last load has failed so lately that the failure answers who asks for it. */
bool mc_served_has_failed(const mc_served *served);
/* Sets *failure to why it has failed. Returns false. */
bool mc_served_refuse(const mc_served *served, mc_failure *failure);

/* When it is closed if nobody asks, by mc_now_us; UINT64_MAX: never, or it is not loaded. */
uint64_t mc_served_expires(const mc_served *served);

#endif

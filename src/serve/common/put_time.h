/* Times as JSON. Threads: any. */
#ifndef SERVE_COMMON_PUT_TIME_H
#define SERVE_COMMON_PUT_TIME_H

#include "serve/common/put.h"

/* Puts a time, as "2026-01-31T12:00:00.000000000Z". seconds, since 1970; negative: now */
void mc_put_time(mc_put *put, const char *key, int64_t seconds);

#endif

/* What a request is called in its answer and in the log. Threads: any. */
#ifndef SERVE_COMMON_REQUEST_ID_H
#define SERVE_COMMON_REQUEST_ID_H

enum { MC_REQUEST_ID = 132 };

/* Takes the client's own, if that is 1 to 128 letters, digits and marks of "-_.:/+=@"; else a new
 * one. given may be NULL. */
void mc_request_id_set(const char *given, char id[MC_REQUEST_ID]);

#endif

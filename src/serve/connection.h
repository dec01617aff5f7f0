/* The callbacks of libmicrohttpd: connections, the reading of requests and the sending of answers.
 *
 * They run in the library's one thread. A request that is there whole is suspended and handed to a
 * worker; what answers it resumes it. */
#ifndef SERVE_CONNECTION_H
#define SERVE_CONNECTION_H

#include "serve/http/library.h"

#include <mica/serve.h>

/* The most bytes of all bodies together, in bodies of the largest size. */
enum { MC_BODIES = 32 };

/* Seconds after which an idle connection is closed. Streams have one more, so that the library
 * keeps them in another list: one that ends with an error behind a resume keeps its socket
 * otherwise while an older idle connection lives. */
enum { MC_IDLE_SECONDS = 120 };

/* MHD_AccessHandlerCallback, MHD_RequestCompletedCallback, MHD_NotifyConnectionCallback; cls is the
 * server. */
enum MHD_Result mc_connection_handle(void *cls, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *size, void **request);
void mc_connection_done(void *cls, struct MHD_Connection *connection, void **request,
                        enum MHD_RequestTerminationCode how);
void mc_connection_notify(void *cls, struct MHD_Connection *connection, void **peer,
                          enum MHD_ConnectionNotificationCode what);

/* Decodes %XX in place; %00 stays as it is, so that no text ends early. Returns the length. */
size_t mc_connection_unescape(void *cls, struct MHD_Connection *connection, char *text);

#endif

/* A hub for tests, on loopback: serves the folders below one as repositories, and fails as it is
 * told to.
 *
 * root/org/name/ is a repository of one commit, whose files are those of the folder. A file
 * org/name.faults beside it has a fault a line, WHAT FILE [NUMBER] [TIMES]:
 *
 *     cut FILE BYTES [TIMES]    ends the connection after so many bytes of an answer
 *     stall FILE BYTES [TIMES]  sends nothing more after so many bytes
 *     corrupt FILE              changes a byte
 *     short FILE                says, in the list of files, that it is longer than it is
 *     whole FILE                ignores which part was asked for
 *     status FILE CODE [TIMES]  answers with the code; FILE "*": for the repository itself
 *     code FILE TEXT            with that X-Error-Code
 *     after FILE SECONDS        with that Retry-After
 *     many * NUMBER             so many more files are listed, in pages of 1,000, of 100 contents
 *     outside FILE              is listed under the path ../FILE
 *     deep FILE                 is listed in 40 folders
 *     next * ADDRESS            the list of files has that next page
 *     loop FILE                 is redirected without an end
 *     size FILE BYTES           is listed with that size
 *     xet FILE                  is stored by xet, as the list of files and its redirect say
 *
 * TIMES: so many answers; none: always. Files of 4,096 bytes and more are large: they have a
 * SHA-256, and are redirected to a second port, the content network, which refuses requests with a
 * token. A repository whose folder has a file .token asks for that token, and is not there
 * without. */
#ifndef HUB_MOCK_HUB_H
#define HUB_MOCK_HUB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MOCK_COMMIT "0123456789abcdef0123456789abcdef01234567"

enum { MOCK_LARGE = 4096 };

typedef struct mock_hub mock_hub;

/* Starts its threads. Ends the process, with a message, where that fails. */
mock_hub *mock_hub_start(const char *root);
void mock_hub_stop(mock_hub *hub);

int mock_hub_port(const mock_hub *hub);
int mock_hub_bodies(mock_hub *hub);      /* answers with a file's bytes */
long long mock_hub_bytes(mock_hub *hub); /* of files that were sent */
int mock_hub_xet(mock_hub *hub);         /* redirects with xet's headers */
bool mock_hub_leaked(mock_hub *hub);     /* the content network was sent a token */

#endif

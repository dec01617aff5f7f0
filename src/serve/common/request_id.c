#include "serve/common/request_id.h"

#include "serve/common/chance.h"

#include <stdio.h>
#include <string.h>

void mc_request_id_set(const char *given, char id[MC_REQUEST_ID]) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+=@";
    size_t len = given ? strlen(given) : 0;
    if (len > 0 && len <= 128 && strspn(given, letters) == len)
        snprintf(id, MC_REQUEST_ID, "%s", given);
    else
        snprintf(id, MC_REQUEST_ID, "req_%016llx%08x", (unsigned long long)mc_chance(),
                 (unsigned)mc_chance());
}

/* What mica_pull is asked for, with the environment's answers to what its options leave open. */
#ifndef HUB_PULL_H
#define HUB_PULL_H

#include "hub/repository.h"

#include <mica/hub.h>

typedef struct mc_pull {
    mica_pull_options options; /* all members that the environment may give are set */
    const char *name;
    mc_repository repository;
    char *token;    /* the file's; NULL: none */
    bool one_model; /* include names the GGUF files of one: their folders count, and no mmproj */
} mc_pull;

/* Makes the cache's snapshot of the revision whole, by asking the hub.
 * commit  receives what the revision is.
 * errors  those of mica_pull */
mica_status mc_pull_online(mc_pull *pull, char commit[MC_COMMIT_TEXT]);

#endif

/* Where the Hugging Face cache is.
 *
 * Threads: any, while nobody changes the environment. */
#ifndef IO_HUB_CACHE_H
#define IO_HUB_CACHE_H

#include "base/status.h"

/* Sets *path to a path in $HF_HOME, else in $XDG_CACHE_HOME/huggingface, else in
 * ~/.cache/huggingface, in new memory, or to NULL if none of these variables is set. */
mica_status mc_hub_home_find(const char *below, char **path);

/* Sets *path to $HF_HUB_CACHE, else to "hub" in the home, as mc_hub_home_find does. */
mica_status mc_hub_cache_find(char **path);

#endif

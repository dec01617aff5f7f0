/* How a snapshot's file names a blob: by a symbolic link. On Windows, where most users may make
 * none, it is the blob's second name (a hard link), or a copy where the disk has none; so does
 * huggingface_hub, with copies. */
#ifndef HUB_LINK_H
#define HUB_LINK_H

#include "base/status.h"

/* Makes the link, or replaces it at once, by another one that gets its name. That has the same name
 * in every process: the next one removes what a killed one left, and one that links the same
 * meanwhile may take ours.
 *
 *  target  as the text of a symbolic link: relative to the link's folder
 *  other   the path of the other one
 *  errors  MICA_EIO */
mica_status mc_hub_link(const char *link, const char *target, const char *other);

#endif

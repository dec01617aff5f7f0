/* bridge.py as a file, which Python reads.
 *
 * It is written once in a process, into a folder that only this user may read or write: Python
 * looks for modules in its script's folder first. It is written anew if somebody has removed it,
 * and removed when the process exits, or by a bridge whose process has died. Threads: any. */
#ifndef ENGINE_MLX_LM_SCRIPT_H
#define ENGINE_MLX_LM_SCRIPT_H

#include "base/status.h"

/* The script's path, in new memory, freed with mc_free.
 * errors  MICA_EIO it cannot be written below $TMPDIR, else /tmp; MICA_ENOMEM */
mica_status mc_mlx_lm_script(char **path);

/* The script itself, made of bridge.py when mica is built. */
extern const unsigned char mc_mlx_lm_bridge[];
extern const size_t mc_mlx_lm_bridge_bytes;

#endif

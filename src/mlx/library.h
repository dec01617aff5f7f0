/* mlx-c, the C library over MLX, found when it is first needed and never unloaded.
 *
 * A program that was built with mlx-c's headers runs without the library too: the device is then
 * unavailable. */
#ifndef MLX_LIBRARY_H
#define MLX_LIBRARY_H

#include "base/status.h"

#include <mlx/c/mlx.h>
#undef I /* of <complex.h> */

typedef struct mc_mlx_library {
#define SYMBOL(name) __typeof__(&mlx_##name) name;
#include "mlx/symbol_list.h"
} mc_mlx_library;

/* The functions, once mc_mlx_load has returned MICA_OK. */
extern mc_mlx_library mc_mlx;

/* Finds the library: the file that MICA_MLX_LIBRARY names, or the one in the folder of the build's
 * headers, or where the system has it. Checks that its version is the one of the headers. Only the
 * first call does anything, unless it fails. Not thread-safe.
 *
 * errors  MICA_EDEVICE there is no library, or another one: the text says how to get it */
mica_status mc_mlx_load(void);

#endif

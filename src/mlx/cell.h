/* What a storage's address is on this device: a cell, which holds an array of MLX, or bytes of the
 * host that become one when they are first computed with.
 *
 * MLX takes such bytes where they are if it can (Metal), and else copies them, once: bytes that are
 * the cell's own are freed then.
 *
 * Threads: all of it on MLX's thread (thread.h). */
#ifndef MLX_CELL_H
#define MLX_CELL_H

#include "graph/layout.h"
#include "graph/storage.h"
#include "mlx/thread.h"

/* Where MLX computes. */
typedef enum mc_mlx_place { MC_MLX_ON_CPU, MC_MLX_ON_METAL, MC_MLX_ON_CUDA } mc_mlx_place;

typedef struct mc_mlx_cell {
    mlx_array array;  /* ctx NULL: there is none yet, or it was taken */
    void *host;       /* bytes that will be the array; NULL: there are none, or no longer */
    bool borrowed;    /* host belongs to somebody else, and stays as it is */
    size_t size;      /* bytes that the cell has room for */
    size_t used;      /* bytes of host, from its beginning, that are worth an array */
    mlx_array cast;   /* of a small array in another dtype, for later launches; ctx NULL: none */
    mlx_stream mover; /* CUDA's, whose arrays move when the host reads them; ctx NULL: they stay */
} mc_mlx_cell;

/* On the thread: copies into a cell, or out of it, once what it holds is computed.
 * errors  MICA_ENOMEM; MICA_EDEVICE; MICA_EINTERNAL outside of the cell */
mica_status mc_mlx_cell_write(mc_mlx_cell *cell, size_t offset, const void *from, size_t bytes);
mica_status mc_mlx_cell_read(const mc_mlx_cell *cell, size_t offset, void *to, size_t bytes);

/* On the thread: the elements of a view, whose first element is offset_bytes into the cell. *array
 * becomes another handle of the cell's own array where that is what the view shows.
 * Bytes that nobody wrote may be anything.
 * errors  MICA_EDEVICE; MICA_EINTERNAL outside of the cell */
mica_status mc_mlx_cell_view(mc_mlx_cell *cell, const mc_layout *layout, int64_t offset_bytes,
                             mlx_stream stream, mlx_array *array);

/* Kernels of MLX's CUDA (0.32) read 16 bytes at a time of an array whose elements lie side by side,
 * also where they begin in the middle of another array, and fail for good where these bytes are not
 * aligned. MLX allocates aligned. */
enum { MC_MLX_ALIGN_BYTES = 16 };

/* On the thread: *array becomes a copy of its elements, which begins an allocation. Returns 0, or
 * what MLX says of a failure. */
int mc_mlx_copy(mlx_array *array, mlx_stream stream);

/* On the thread: another handle of the cast that was kept of a view; *array's ctx NULL: none was.
 * mc_mlx_cell_keep_cast takes it over: a cast of all that the cell holds, if that is small. */
void mc_mlx_cell_find_cast(const mc_mlx_cell *cell, const mc_layout *layout, int64_t offset_bytes,
                           mlx_array *array);
void mc_mlx_cell_keep_cast(mc_mlx_cell *cell, const mc_layout *layout, int64_t offset_bytes,
                           mlx_array array);

/* On the thread: where the host reads an evaluated array's first byte. */
const void *mc_mlx_host_pointer(mlx_array array);

/* On the thread: frees what the cell holds. */
void mc_mlx_cell_clear(mc_mlx_cell *cell);

mlx_dtype mc_mlx_dtype(mica_dtype dtype);

#endif

/* The thread that all of MLX runs on: its streams belong to the thread that made them.
 *
 * There is one for the whole process, as MLX's memory, default device and error handler are. It
 * starts when the first device opens and ends when the last one closes.
 *
 * MLX does not survive fork: a child that goes on without exec gets MICA_EDEVICE from all that it
 * asks for. */
#ifndef MLX_THREAD_H
#define MLX_THREAD_H

#include "device/worker.h"
#include "mlx/library.h"

/* What runs on the thread, and what came of it. */
typedef struct mc_mlx_task mc_mlx_task;
struct mc_mlx_task {
    mc_job job;                            /* first */
    mica_status (*run)(mc_mlx_task *task); /* calls mc_mlx; leaves its error with mc_fail */
    mica_status status;
    char error[1024]; /* of status */
};

/* Counts one opener more, loads the library and starts the thread where it is the first; and one
 * less. errors  MICA_EDEVICE */
mica_status mc_mlx_thread_open(void);
void mc_mlx_thread_close(void);
/* From here on the thread and its streams stay until the process ends: MLX's CUDA frees a stream in
 * a thread of its own, which ends the process if the driver is gone by then. */
void mc_mlx_thread_keep(void);

/* Hands a task over, which lives until it has been waited for.
 * errors  MICA_EDEVICE the process is a fork of the one that opened the device */
mica_status mc_mlx_submit(mc_mlx_task *task);
/* Waits for its end. Returns its status, with the error's text. */
mica_status mc_mlx_wait(mc_mlx_task *task);
/* Both. */
mica_status mc_mlx_call_on_thread(mc_mlx_task *task);

/* For what cannot wait or fail: frees an array some time later, on the thread. Takes over. */
typedef struct mc_mlx_garbage mc_mlx_garbage;
struct mc_mlx_garbage {
    mc_mlx_garbage *next;
    void (*free)(mc_mlx_garbage *garbage); /* on the thread */
};
void mc_mlx_free_later(mc_mlx_garbage *garbage);
/* On the thread: frees what waits for it. */
void mc_mlx_free_garbage(void);

/* On the thread: MICA_EDEVICE with the text of the first error since mc_mlx_forget_error, behind
 * "mlx: <what>: ". */
mica_status mc_mlx_fail(const char *what);
void mc_mlx_forget_error(void);

#endif

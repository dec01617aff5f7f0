/* The thread that all of MLX runs on: its streams belong to the thread that made them.
 *
 * There is one for the whole process, as MLX's memory, default device and error handler are. It
 * starts when the first device opens and stays: MLX never ends the threads of its streams, so each
 * thread of our own would leave more of them behind. The library stays loaded with it. At the end
 * of the process it stops before MLX's objects go.
 *
 * A fork waits until MLX computes nothing. MLX does not survive it: a child that goes on without
 * exec gets MICA_EDEVICE from all that it asks for. */
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

/* Loads the library and starts the thread, if that was not done yet. errors  MICA_EDEVICE */
mica_status mc_mlx_thread_start(void);
/* Lets the thread stop at the end of the process before those of MLX's objects go that are there
 * now: it makes them when it needs them, so this is called at each stage. Does nothing when it was
 * called for the stage before. */
enum { MC_MLX_LOOKED, MC_MLX_OPENED, MC_MLX_LAUNCHED }; /* + its mode */
void mc_mlx_thread_stop_at_exit(unsigned stage);
/* On the thread: a device whose default stream is used, for which forks and the end wait. */
void mc_mlx_thread_add_stream(mlx_device device, bool on_cpu);

/* Hands a task over, which lives until it has been waited for.
 * errors  MICA_EDEVICE the process is a fork of the one that opened the device, or ends */
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

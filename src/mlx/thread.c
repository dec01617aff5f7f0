#include "mlx/thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t openers_lock = PTHREAD_MUTEX_INITIALIZER;
static int openers; /* guarded by it */
static bool kept;   /* mc_mlx_thread_keep; guarded by it */
static mc_worker worker;
static pid_t owner; /* the process whose thread it is */

/* ---- errors: on the thread ---- */

static char first_error[768];

/* Without a handler MLX prints and ends the process. */
static void keep_error(const char *text, void *data) {
    (void)data;
    if (first_error[0] != '\0') return;
    const char *end = strstr(text, " at "); /* the place in mlx-c's sources says nothing */
    for (const char *next = end; next; next = strstr(next + 1, " at "))
        end = next;
    snprintf(first_error, sizeof first_error, "%.*s", end ? (int)(end - text) : (int)strlen(text),
             text);
}

mica_status mc_mlx_fail(const char *what) {
    return mc_fail(MICA_EDEVICE, "mlx: %s: %s", what,
                   first_error[0] != '\0' ? first_error : "failed without a reason");
}

void mc_mlx_forget_error(void) {
    first_error[0] = '\0';
}

/* ---- garbage ---- */

static pthread_mutex_t garbage_lock = PTHREAD_MUTEX_INITIALIZER;
static mc_mlx_garbage *garbage; /* guarded by it */
static bool sweeping;           /* the sweep is on its way; guarded by it */

void mc_mlx_free_garbage(void) {
    pthread_mutex_lock(&garbage_lock);
    mc_mlx_garbage *all = garbage;
    garbage = NULL;
    pthread_mutex_unlock(&garbage_lock);
    while (all) {
        mc_mlx_garbage *next = all->next;
        all->free(all);
        all = next;
    }
}

static void run_sweep(mc_job *job) {
    (void)job;
    pthread_mutex_lock(&garbage_lock);
    sweeping = false;
    pthread_mutex_unlock(&garbage_lock);
    mc_mlx_free_garbage();
}

void mc_mlx_free_later(mc_mlx_garbage *g) {
    static mc_job sweep = {.run = run_sweep};
    pthread_mutex_lock(&garbage_lock);
    g->next = garbage;
    garbage = g;
    bool submit = !sweeping && owner == getpid();
    sweeping = sweeping || submit;
    /* Under the lock, so that the sweep is not handed over again before it runs. Where that fails,
     * the next task frees the garbage. */
    if (submit && mc_worker_submit(&worker, &sweep) != MICA_OK) sweeping = false;
    pthread_mutex_unlock(&garbage_lock);
}

/* ---- tasks ---- */

static void run_task(mc_job *job) {
    mc_mlx_task *task = (mc_mlx_task *)(void *)job;
    mc_mlx_forget_error();
    mc_mlx_free_garbage();
    task->status = task->run(task);
    if (task->status != MICA_OK) snprintf(task->error, sizeof task->error, "%s", mica_last_error());
}

mica_status mc_mlx_submit(mc_mlx_task *task) {
    if (owner != getpid())
        return mc_fail(MICA_EDEVICE, "mlx: this process is a fork of the one that opened the "
                                     "device; MLX works in that one alone");
    task->job.run = run_task;
    return mc_worker_submit(&worker, &task->job);
}

mica_status mc_mlx_wait(mc_mlx_task *task) {
    mc_worker_wait(&worker, &task->job);
    return task->status == MICA_OK ? MICA_OK : mc_fail(task->status, "%s", task->error);
}

mica_status mc_mlx_call_on_thread(mc_mlx_task *task) {
    MC_TRY(mc_mlx_submit(task));
    return mc_mlx_wait(task);
}

/* ---- opening ---- */

static mica_status end(mc_mlx_task *task) {
    (void)task;
    return mc_mlx.clear_streams() == 0 ? MICA_OK : mc_mlx_fail("ending its streams");
}

static mica_status start(void) {
    if (owner && owner != getpid())
        return mc_fail(MICA_EDEVICE, "mlx: MLX ran before the process forked, and cannot here");
    if (kept) return MICA_OK;
    MC_TRY(mc_mlx_load());
    mc_mlx.set_error_handler(keep_error, NULL, NULL);
    MC_TRY(mc_worker_init(&worker));
    owner = getpid();
    return MICA_OK;
}

mica_status mc_mlx_thread_open(void) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&openers_lock);
    if (openers == 0) status = start();
    if (status == MICA_OK) openers++;
    pthread_mutex_unlock(&openers_lock);
    return status;
}

void mc_mlx_thread_keep(void) {
    pthread_mutex_lock(&openers_lock);
    kept = true;
    pthread_mutex_unlock(&openers_lock);
}

void mc_mlx_thread_close(void) {
    pthread_mutex_lock(&openers_lock);
    if (--openers == 0 && owner == getpid() && !kept) {
        mc_mlx_task task = {.run = end};
        (void)mc_mlx_call_on_thread(&task); /* what fails here leaves a stream behind */
        mc_worker_deinit(&worker);
    }
    pthread_mutex_unlock(&openers_lock);
}

#define _GNU_SOURCE /* dladdr */
#define _DARWIN_C_SOURCE
#include "mlx/thread.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Locks are taken in this order. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t submit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t garbage_lock = PTHREAD_MUTEX_INITIALIZER;

static mc_worker worker;
static pid_t owner; /* the process whose thread it is; 0: there is none. Guarded by start_lock */
static bool ending; /* the process ends. Guarded by submit_lock */
static _Thread_local bool is_the_thread;

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

/* ---- handing over ---- */

static mica_status submit(mc_job *job) {
    if (owner != getpid())
        return mc_fail(MICA_EDEVICE, "mlx: this process is a fork of the one that opened the "
                                     "device; MLX works in that one alone");
    pthread_mutex_lock(&submit_lock);
    mica_status status = ending ? mc_fail(MICA_EDEVICE, "mlx: the process is about to end")
                                : mc_worker_submit(&worker, job);
    pthread_mutex_unlock(&submit_lock);
    return status;
}

/* ---- garbage ---- */

static mc_mlx_garbage *garbage; /* guarded by garbage_lock */
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

static void set_sweeping(bool value) {
    pthread_mutex_lock(&garbage_lock);
    sweeping = value;
    pthread_mutex_unlock(&garbage_lock);
}

static void run_sweep(mc_job *job) {
    (void)job;
    set_sweeping(false);
    mc_mlx_free_garbage();
}

void mc_mlx_free_later(mc_mlx_garbage *g) {
    static mc_job sweep = {.run = run_sweep};
    pthread_mutex_lock(&garbage_lock);
    g->next = garbage;
    garbage = g;
    bool first = !sweeping; /* the sweep is not handed over again before it runs */
    sweeping = true;
    pthread_mutex_unlock(&garbage_lock);
    /* Where that fails, the next task frees the garbage. */
    if (first && submit(&sweep) != MICA_OK) set_sweeping(false);
}

/* ---- tasks ---- */

static void run_task(mc_job *job) {
    mc_mlx_task *task = (mc_mlx_task *)(void *)job;
    is_the_thread = true;
    mc_mlx_forget_error();
    mc_mlx_free_garbage();
    task->status = task->run(task);
    if (task->status != MICA_OK) snprintf(task->error, sizeof task->error, "%s", mica_last_error());
}

mica_status mc_mlx_submit(mc_mlx_task *task) {
    task->job.run = run_task;
    return submit(&task->job);
}

mica_status mc_mlx_wait(mc_mlx_task *task) {
    MC_TRY(mc_worker_wait(&worker, &task->job));
    return task->status == MICA_OK ? MICA_OK : mc_fail(task->status, "%s", task->error);
}

mica_status mc_mlx_call_on_thread(mc_mlx_task *task) {
    MC_TRY(mc_mlx_submit(task));
    return mc_mlx_wait(task);
}

/* ---- forks and the end ---- */

static mlx_stream streams[2]; /* of MLX's GPU and CPU; ctx NULL: not used. On the thread */

void mc_mlx_thread_add_stream(mlx_device device, bool on_cpu) {
    if (streams[on_cpu].ctx) return;
    streams[on_cpu] = mc_mlx.stream_new();
    if (mc_mlx.get_default_stream(&streams[on_cpu], device) == 0) return;
    mc_mlx.stream_free(streams[on_cpu]);
    streams[on_cpu] = (mlx_stream){0};
}

static mica_status synchronize(mc_mlx_task *task) {
    (void)task;
    for (int i = 0; i < 2; i++)
        if (streams[i].ctx && mc_mlx.synchronize(streams[i])) return mc_mlx_fail("waiting for it");
    return MICA_OK;
}

/* With submit_lock: returns when nothing is computed or waits to be. */
static void wait_until_idle(void) {
    mc_mlx_task task = {.run = synchronize, .job.run = run_task};
    if (!worker.started) return; /* it starts with submit_lock held */
    if (mc_worker_submit(&worker, &task.job) == MICA_OK) (void)mc_worker_wait(&worker, &task.job);
}

/* MLX must not compute while the process forks: OpenBLAS, which its CPU multiplies by, ends its
 * threads before, and waits for ever if one of them is at work. The locks are free in the child. */
static _Thread_local bool forks;

static void before_fork(void) {
    if (is_the_thread) return;
    forks = true;
    pthread_mutex_lock(&start_lock);
    pthread_mutex_lock(&submit_lock);
    if (owner == getpid() && !ending) wait_until_idle();
    pthread_mutex_lock(&garbage_lock);
}

static void after_fork(void) {
    if (!forks) return;
    forks = false;
    pthread_mutex_unlock(&garbage_lock);
    pthread_mutex_unlock(&submit_lock);
    pthread_mutex_unlock(&start_lock);
}

/* Before MLX's own objects go, which the thread would compute with. */
static void before_exit(void) {
    if (owner != getpid() || is_the_thread) return;
    pthread_mutex_lock(&submit_lock);
    if (!ending) wait_until_idle();
    ending = true;
    pthread_mutex_unlock(&submit_lock);
}

/* ---- starting ---- */

/* The thread runs this library's code until the process ends, whoever unloads the library. */
static void stay_loaded(void) {
    Dl_info info;
    if (dladdr(&worker, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static mica_status start(void) {
    static bool guarded;
    if (owner == getpid()) return MICA_OK;
    if (owner)
        return mc_fail(MICA_EDEVICE, "mlx: MLX ran before the process forked, and cannot here");
    MC_TRY(mc_mlx_load());
    mc_mlx.set_error_handler(keep_error, NULL, NULL);
    if (!guarded && pthread_atfork(before_fork, after_fork, after_fork) != 0)
        return mc_fail_nomem("the device mlx");
    guarded = true;
    MC_TRY(mc_worker_init(&worker));
    stay_loaded();
    owner = getpid();
    return MICA_OK;
}

mica_status mc_mlx_thread_start(void) {
    pthread_mutex_lock(&start_lock);
    mica_status status = start();
    pthread_mutex_unlock(&start_lock);
    return status;
}

void mc_mlx_thread_stop_at_exit(unsigned stage) {
    static atomic_uint registered; /* a bit for each stage */
    if (atomic_fetch_or(&registered, 1u << stage) & 1u << stage) return;
    (void)atexit(before_exit); /* without it the end is as safe as MLX makes it */
}

#define _GNU_SOURCE
#include "cuda/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/system.h"
#include "group/group.h"

enum { INT8 = 0, NOT_READY = 600, OLDEST = 21800 }; /* ncclInt8, CUDA_ERROR_NOT_READY; 2.18 */

enum { LOOK_US = 1000000, START_S = 60 }; /* how often ranks are looked after; NCCL's start */

static struct {
#define NCCL(name, symbol, parameters) int(*name) parameters;
#include "cuda/nccl_list.h"
} nccl;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define NCCL(name, symbol, parameters) {#symbol, (size_t)((char *)&nccl.name - (char *)&nccl)},
#include "cuda/nccl_list.h"
};

/* ---- the library ---- */

static mica_status find_library(void **handle) {
    /* $MICA_NCCL_LIBRARY: the file of NCCL to load (default: libnccl.so.2) */
    const char *named = getenv("MICA_NCCL_LIBRARY");
    const char *file = named && named[0] ? named : "libnccl.so.2";
    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return *handle ? MICA_OK : mc_fail(MICA_EDEVICE, "nccl: %s is not here", file);
}

static mica_status load(void) {
    static bool loaded;
    void *handle;
    int version = 0;
    if (loaded) return MICA_OK;
    MC_TRY(find_library(&handle));
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol) return mc_fail(MICA_EDEVICE, "nccl: it has no %s", symbols[i].name);
        memcpy((char *)&nccl + symbols[i].at, &symbol, sizeof symbol);
    }
    if (nccl.version(&version) != 0 || version < OLDEST)
        return mc_fail(MICA_EDEVICE, "nccl: it is version %d, and 2.18 is wanted", version);
    loaded = true;
    return MICA_OK;
}

static mica_status check(int error, const char *what) {
    return error ? mc_fail(MICA_EDEVICE, "nccl: %s: error %d", what, error) : MICA_OK;
}

/* ---- starting ---- */

/* A communicator that is being made, by a thread of its own: NCCL waits for all ranks without a
 * limit. (One that does not block has a limit, and a thread of NCCL's for each collective.) */
typedef struct starting {
    void *context; /* of the GPU */
    mc_nccl_id id;
    int rank, size;
    pthread_mutex_t lock;
    bool done, left; /* guarded: nobody waits for it any more */
    int error;
    void *comm;
} starting;

static void free_starting(starting *s) {
    (void)pthread_mutex_destroy(&s->lock);
    mc_free(s);
}

static void *start(void *own) {
    starting *s = own;
    void *context, *comm = NULL;
    int error = mc_cuda.context_push(s->context);
    if (!error) {
        error = nccl.comm_new(&comm, s->size, s->id, s->rank);
        (void)mc_cuda.context_pop(&context);
    }
    (void)pthread_mutex_lock(&s->lock);
    s->error = error;
    s->comm = comm;
    s->done = true;
    bool left = s->left;
    (void)pthread_mutex_unlock(&s->lock);
    if (left && comm) (void)nccl.comm_abort(comm);
    if (left) free_starting(s);
    return NULL;
}

static bool is_done(starting *s) {
    (void)pthread_mutex_lock(&s->lock);
    bool done = s->done;
    (void)pthread_mutex_unlock(&s->lock);
    return done;
}

/* Leaves it to its thread, unless that has ended meanwhile. */
static bool leave(starting *s) {
    (void)pthread_mutex_lock(&s->lock);
    s->left = !s->done;
    bool left = s->left;
    (void)pthread_mutex_unlock(&s->lock);
    return left;
}

/* own: of NCCL's start, where no rank is gone.
 *  errors  MICA_EDEVICE a rank is gone, which the text names */
static mica_status wait_for_start(starting *s, mica_group *group, mica_status *own) {
    uint64_t begun = mc_now_us(), looked = begun;
    while (*own == MICA_OK && !is_done(s)) {
        const struct timespec nap = {.tv_nsec = 1000000};
        uint64_t now = mc_now_us();
        if (now > looked + LOOK_US) {
            MC_TRY(mc_group_check(group));
            looked = now;
        }
        if (now > begun + START_S * UINT64_C(1000000))
            *own = mc_fail(MICA_EDEVICE, "nccl: it has not started within %d s", START_S);
        (void)nanosleep(&nap, NULL);
    }
    return MICA_OK;
}

/* own and errors  as of wait_for_start */
static mica_status make_comm(const mc_cuda_state *st, mica_group *group, const mc_nccl_id *id,
                             void **comm, mica_status *own) {
    pthread_t thread;
    starting *s = mc_calloc(1, sizeof *s);
    *own = s ? MICA_OK : mc_fail_nomem("a group on a GPU");
    if (!s) return MICA_OK;
    s->context = st->context;
    s->id = *id;
    s->rank = mica_group_rank(group);
    s->size = mica_group_size(group);
    (void)pthread_mutex_init(&s->lock, NULL);
    if (mc_thread_start(&thread, start, s) != 0) {
        free_starting(s);
        *own = mc_fail(MICA_ENOMEM, "nccl: no thread could be started");
        return MICA_OK;
    }
    mica_status status = wait_for_start(s, group, own);
    if ((status != MICA_OK || *own != MICA_OK) && leave(s)) {
        (void)pthread_detach(thread);
        return status;
    }
    (void)pthread_join(thread, NULL);
    *comm = s->comm;
    if (*own == MICA_OK) *own = check(s->error, "ncclCommInitRank");
    free_starting(s);
    return status;
}

/* ---- joining ---- */

/* Whether all ranks are well; the others say what is wrong with them in their logs. */
static mica_status all_are_well(mica_group *group, mica_status status, bool *well) {
    int64_t ill = status != MICA_OK, count = 0;
    if (ill) mc_log_line(MICA_LOG_NOTE, "%s: tensors go over the host", mica_last_error());
    MC_TRY(mc_group_all_reduce(group, &ill, 1, MICA_I64, &count));
    *well = count == 0;
    return MICA_OK;
}

static mc_cuda_comm *find(const mc_cuda_state *st, int64_t group) {
    mc_cuda_comm *c = st->comms;
    while (c && c->group != group)
        c = c->next;
    return c;
}

static void free_comm(mc_cuda_comm *c) {
    if (c->comm) (void)nccl.comm_free(c->comm);
    mc_free(c);
}

/* Frees those of groups that have ended: all ranks do so together. */
static void free_ended(mc_cuda_state *st) {
    for (mc_cuda_comm **at = &st->comms; *at;) {
        mica_group *group;
        mc_cuda_comm *c = *at;
        if (mc_group_find(c->group, &group) == MICA_OK) {
            mc_group_release(group);
            at = &c->next;
            continue;
        }
        *at = c->next;
        free_comm(c);
    }
}

mica_status mc_cuda_join(void *own, mica_group *group) {
    mc_cuda_state *st = own;
    mc_nccl_id id = {{0}};
    bool well;
    if (mica_group_size(group) == 1 || find(st, mc_group_number(group))) return MICA_OK;
    free_ended(st);
    mc_cuda_comm *c = mc_calloc(1, sizeof *c);
    mica_status status = c ? load() : mc_fail_nomem("a group on a GPU");
    if (status == MICA_OK && mica_group_rank(group) == 0)
        status = check(nccl.unique_id(&id), "ncclGetUniqueId");
    status = all_are_well(group, status, &well);
    if (status == MICA_OK && well) status = mica_group_share(group, &id, sizeof id, 0);
    if (status == MICA_OK && well) {
        mica_status started;
        status = make_comm(st, group, &id, &c->comm, &started);
        if (status == MICA_OK) status = all_are_well(group, started, &well);
    }
    if (status != MICA_OK || !well) {
        if (c && c->comm) (void)nccl.comm_abort(c->comm);
        mc_free(c);
        return status;
    }
    c->group = mc_group_number(group);
    c->next = st->comms;
    st->comms = c;
    st->keeps_graphs = false; /* collectives are no kernels that a graph could note */
    return MICA_OK;
}

void mc_cuda_comms_free(mc_cuda_state *st) {
    for (mc_cuda_comm *c = st->comms, *next; c; c = next) {
        next = c->next;
        free_comm(c);
    }
    st->comms = NULL;
}

bool mc_cuda_has_group(const mc_cuda_state *st, const mc_attr_collective *attr) {
    return attr ? find(st, attr->group) != NULL : st->comms != NULL;
}

/* ---- collectives ---- */

static int collect(const mc_call *call, void *comm, void *stream, size_t bytes) {
    const mc_attr_collective *a = call->attr;
    void *x = call->in[0].data, *y = call->out.data;
    int rank = (int)a->rank;
    switch ((int)call->op) {
    case MC_OP_ALL_GATHER:
        return nccl.all_gather(x, y, bytes, INT8, comm, stream);
    case MC_OP_BROADCAST:
        return nccl.broadcast(x, y, bytes, INT8, rank, comm, stream);
    case MC_OP_SEND:
        return nccl.send(x, bytes, INT8, rank, comm, stream);
    }
    return nccl.recv(y, bytes, INT8, rank, comm, stream);
}

/* x is dense; the token is nothing that anybody reads. */
mica_status mc_cuda_collect(const mc_call *call) {
    const mc_cuda_state *st = call->state;
    const mc_attr_collective *a = call->attr;
    const mc_layout *l = call->in[0].layout;
    const mc_cuda_comm *c = find(st, a->group);
    size_t bytes = (size_t)mc_layout_size(l) * mica_dtype_bytes(l->dtype);
    if (!c || !c->comm) return mc_fail(MICA_EDEVICE, "nccl: the group has ended");
    if (!bytes) return MICA_OK;
    MC_TRY(check(collect(call, c->comm, st->stream, bytes), mc_op_get(call->op)->name));
    uint64_t to = (uint64_t)(uintptr_t)call->out.data, from = (uint64_t)(uintptr_t)call->in[0].data;
    if (call->op != MC_OP_SEND || to == from) return MICA_OK;
    return mc_cuda_check(mc_cuda.within(to, from, bytes, st->stream), "a copy");
}

/* Numbers that a launch brings are the host's. */
bool mc_cuda_supports_collective(const void *attr, const mc_layout *const *in, int n_in,
                                 const mc_layout *out) {
    (void)attr, (void)n_in, (void)out;
    return in[0]->ndim > 0;
}

/* ---- waiting ---- */

/* What is wrong with a group; then nothing that it does will end. */
static mica_status look_after(const mc_cuda_comm *c) {
    mica_group *group;
    int error = 0;
    MC_TRY(check(nccl.comm_error(c->comm, &error), "ncclCommGetAsyncError"));
    MC_TRY(check(error, "a collective"));
    MC_TRY(mc_group_find(c->group, &group));
    mica_status status = mc_group_check(group);
    mc_group_release(group);
    return status;
}

static void abort_all(mc_cuda_state *st) {
    for (mc_cuda_comm *c = st->comms; c; c = c->next) {
        if (c->comm) (void)nccl.comm_abort(c->comm);
        c->comm = NULL;
    }
}

static void rest(uint64_t waited_us) {
    const struct timespec nap = {.tv_nsec = 20000};
    if (waited_us < 2000)
        (void)sched_yield();
    else
        (void)nanosleep(&nap, NULL);
}

mica_status mc_cuda_wait_with_ranks(mc_cuda_state *st, void *event) {
    uint64_t start = mc_now_us(), looked = start;
    int error;
    while ((error = mc_cuda.event_query(event)) == NOT_READY) {
        uint64_t now = mc_now_us();
        mica_status status = MICA_OK;
        for (mc_cuda_comm *c = st->comms; c && now > looked + LOOK_US; c = c->next)
            if (c->comm && status == MICA_OK) status = look_after(c);
        if (now > looked + LOOK_US) looked = now;
        if (status != MICA_OK) {
            abort_all(st);
            return status;
        }
        rest(now - start);
    }
    return mc_cuda_check(error, "the device");
}

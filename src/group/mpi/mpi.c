/* The back ends over MPI and over TCP. MPI's library is loaded by a shim of ours (group/mpi/shim.h)
 * when a group is opened, so that nothing of it is needed to build mica or to run it alone. TCP is
 * a table of the same calls (group/tcp/tcp.h).
 *
 * MPI waits for ever for a rank that stands still. So calls only start what they do, and are asked
 * whether it is done; and a thread of each rank sends all others a sign of life, also while its
 * rank computes or reads. Who waits, and has had none from a rank for so long, gives up and names
 * it. A rank that gives the group up says so with a last sign, and why. After that nothing of the
 * group works any more: what was started has not ended. */
#define _GNU_SOURCE /* dladdr */
#define _DARWIN_C_SOURCE

#include "group/group.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/system.h"
#include "group/mpi/shim.h"
#include "group/tcp/tcp.h"

/* START_S: how long MPI may take to start beyond the patience for ranks that do not come; TCP_S:
 * how much of that is left to TCP, which then says who has not come. */
enum { PIECE = 1 << 28, BEAT_MS = 250, START_S = 5, TCP_S = 5, DATA = 1, BEAT = 2 };

/* What ranks send each other. */
typedef struct sign {
    char last; /* 1: the group is given up */
    char why[247];
} sign;

/* Where a rank is. */
typedef struct place {
    char host[64];
    int64_t pid;
} place;

typedef struct state {
    void *comm;
    int rank, size;
    int *ranks;  /* [size] each rank's own in the world */
    bool sleeps; /* who waits sleeps at once */
} state;

/* The MPI of the process; there is one, and it begins once. */
static struct {
    const char *name; /* of the back end */
    const mc_mpi_shim *shim;
    bool over; /* it was finalised, or could not begin */
    int groups;
    state world;
    void *beats;       /* a communicator */
    place *places;     /* [size] */
    uint64_t *seen_us; /* [size] when each rank's last sign of life came; guarded */
    void **sending;    /* [size] requests of signs that are on their way; guarded */
    uint64_t patience_us;
    pthread_t thread; /* starts MPI, sends signs of life, and ends MPI */
    bool has_thread;
    bool started; /* guarded: MPI has, or could not, as `code` says */
    int code;
    bool beating, ending; /* guarded: what the thread is to do */
    bool finalizes;       /* guarded: and then to end MPI */
    bool failed;          /* guarded: a rank is gone, or it was given up */
    int quitter;          /* guarded: the rank that has given it up, + 1; 0: none */
    sign farewell;        /* guarded: its own or this rank's last sign */
    char why[400];        /* guarded: what this rank has failed of by itself; "": it has not */
    atomic_bool given_up; /* what waits is to end */
    pthread_mutex_t lock; /* MPI takes one call at a time */
    pthread_cond_t sign;
} mpi = {.lock = PTHREAD_MUTEX_INITIALIZER, .sign = PTHREAD_COND_INITIALIZER};

/* ---- the library ---- */

/* $OMPI_COMM_WORLD_SIZE, $PMI_SIZE, $PMIX_RANK: set by mpirun and srun: this process is one of
 * several, and MPI is loaded */
/* $MICA_MPI_LIBRARY: the file of libmica_mpi to load (default: beside mica, or where it is
 * installed) */

/* What launchers set, and the MPI that they start. */
static const struct {
    const char *size, *flavour;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "openmpi"}, {"PMI_SIZE", "mpich"}, {"PMIX_RANK", "openmpi"}};

static const char *const flavours[] = {"openmpi", "mpich"};

enum {
    LAUNCHERS = sizeof launchers / sizeof *launchers,
    FLAVOURS = sizeof flavours / sizeof *flavours
};

static int find_launcher(void) {
    int i = 0;
    while (i < LAUNCHERS && !getenv(launchers[i].size))
        i++;
    return i;
}

/* How many ranks the launcher says that there are; 0: it does not say. */
static int told_size(void) {
    int i = find_launcher();
    return i < LAUNCHERS && strstr(launchers[i].size, "SIZE") ? atoi(getenv(launchers[i].size)) : 0;
}

static bool is_started(void) {
    return find_launcher() < LAUNCHERS && told_size() != 1;
}

/* The folder of the file that this code is in: libmica, or a program, which may have been found by
 * PATH. */
static void own_folder(char *folder, size_t bytes) {
    Dl_info info;
    char *whole = NULL;
    if (dladdr(&mpi, &info) && info.dli_fname)
        whole = realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", NULL);
    char *end = whole ? strrchr(whole, '/') : NULL;
    if (end) *end = '\0';
    snprintf(folder, bytes, "%s", end ? whole : ".");
    free(whole);
}

/* The shim of one MPI: beside libmica or the command, or where it is installed. */
static void *open_flavour(const char *flavour, char *why, size_t bytes) {
    char own[512], file[640];
    own_folder(own, sizeof own);
    const char *const folders[] = {own, MICA_MPI_FOLDER};
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/libmica_mpi-%s" MICA_MPI_SUFFIX, folders[i], flavour);
        if (access(file, R_OK) != 0) continue;
        void *handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
        if (handle) return handle;
        snprintf(why, bytes, "%s", dlerror());
    }
    return NULL;
}

static void *open_library(char *why, size_t bytes) {
    const char *named = getenv("MICA_MPI_LIBRARY");
    int launcher = find_launcher();
    void *handle = NULL;
    snprintf(why, bytes, "it was built without one");
    if (named && *named) {
        handle = dlopen(named, RTLD_NOW | RTLD_GLOBAL);
        if (!handle) snprintf(why, bytes, "MICA_MPI_LIBRARY: %s", dlerror());
        return handle;
    }
    if (launcher < LAUNCHERS) handle = open_flavour(launchers[launcher].flavour, why, bytes);
    for (int i = 0; !handle && i < FLAVOURS; i++)
        handle = open_flavour(flavours[i], why, bytes);
    return handle;
}

static mica_status load(void) {
    char why[512];
    if (mpi.shim) return MICA_OK;
    void *handle = open_library(why, sizeof why);
    const mc_mpi_shim *shim = handle ? dlsym(handle, MC_MPI_SHIM_SYMBOL) : NULL;
    if (!handle)
        return mc_fail(MICA_EUNSUPPORTED, "mpi: this mica has no library for MPI: %s", why);
    if (!shim || shim->version != MC_MPI_SHIM_VERSION) {
        (void)dlclose(handle);
        return mc_fail(MICA_EUNSUPPORTED, "mpi: the library for MPI is of another mica");
    }
    mpi.shim = shim;
    return MICA_OK;
}

static mica_status check(int code, const char *what) {
    char text[256];
    if (code == 0) return MICA_OK;
    mpi.shim->error_text(code, text, sizeof text);
    return mc_fail(MICA_EDEVICE, "%s: %s: %s", mpi.name, what, text);
}

/* ---- signs of life; `lock` is held ---- */

static void send_signs(const sign *sent) {
    for (int r = 0; r < mpi.world.size; r++) {
        int done = 1;
        if (r == mpi.world.rank) continue;
        if (mpi.sending[r] && mpi.shim->test(&mpi.sending[r], &done) != 0) continue;
        if (done || sent->last)
            (void)mpi.shim->send(mpi.beats, sent, sizeof *sent, r, BEAT, &mpi.sending[r]);
    }
}

static void send_beats(void) {
    static const sign beat;
    send_signs(&beat);
}

/* Ends the group for this rank. The last sign is sent first: nothing of MPI may be called later,
 * when those who wait have gone on. */
static void fail_group(void) {
    if (mpi.failed) return;
    if (mpi.beating && !mpi.quitter && atomic_load(&mpi.given_up)) {
        mpi.farewell.last = 1;
        send_signs(&mpi.farewell);
    }
    mpi.failed = true;
}

static void take_beats(void) {
    int there = 0, from = 0;
    while (mpi.beats && mpi.shim->probe(mpi.beats, BEAT, &there, &from) == 0 && there) {
        sign came = {0};
        void *request = NULL;
        int done = 0;
        if (mpi.shim->recv(mpi.beats, &came, sizeof came, from, BEAT, &request) != 0) return;
        while (!done && mpi.shim->test(&request, &done) == 0) {}
        mpi.seen_us[from] = mc_now_us();
        if (!came.last || mpi.quitter) continue;
        mpi.quitter = from + 1;
        mpi.farewell = came;
        mpi.farewell.why[sizeof came.why - 1] = '\0';
        mpi.failed = true;
    }
}

/* Waits for a sign of another thread, up to so long. */
static void wait_for_sign(int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(&mpi.sign, &mpi.lock, &until);
}

/* The life of MPI in a thread of its own: MPI's start waits for all ranks without a limit. */
static void *live(void *context) {
    (void)context;
    int code = mpi.shim->init(&mpi.world.comm, &mpi.world.rank, &mpi.world.size);
    (void)pthread_mutex_lock(&mpi.lock);
    mpi.code = code;
    mpi.started = true;
    (void)pthread_cond_broadcast(&mpi.sign);
    while (!mpi.ending && !mpi.failed) {
        if (mpi.beating) send_beats();
        if (mpi.beating) take_beats();
        if (atomic_load(&mpi.given_up)) fail_group();
        if (!mpi.failed) wait_for_sign(BEAT_MS);
    }
    if (atomic_load(&mpi.given_up)) fail_group();
    if (mpi.finalizes && !mpi.failed) take_beats();
    bool finalizes = mpi.finalizes && !mpi.failed;
    (void)pthread_mutex_unlock(&mpi.lock);
    if (finalizes) mpi.shim->finalize();
    return NULL;
}

/* The rank of a group that has not been heard of for too long; -1: none. A process that stood
 * still itself has heard of nobody: it first takes what has come meanwhile. */
static int find_silent(const state *s) {
    take_beats();
    uint64_t now = mc_now_us();
    for (int i = 0; i < s->size; i++) {
        int r = s->ranks[i];
        if (r != mpi.world.rank && now > mpi.seen_us[r] + mpi.patience_us) return r;
    }
    return -1;
}

static mica_status say_gone(int rank) {
    return mc_fail(
        MICA_EDEVICE, "rank %d (process %lld on %s) has given no sign of life for %.0f s", rank,
        (long long)mpi.places[rank].pid, mpi.places[rank].host, (double)mpi.patience_us / 1e6);
}

/* Why a group that is over is so. */
static mica_status say_over(void) {
    int rank = mpi.quitter - 1;
    if (rank < 0 && mpi.why[0]) return mc_fail(MICA_EDEVICE, "%s", mpi.why);
    if (rank < 0 && atomic_load(&mpi.given_up))
        return mc_fail(MICA_EDEVICE, "%s: the group is being ended: %s", mpi.name,
                       mpi.farewell.why);
    if (rank < 0)
        return mc_fail(MICA_EDEVICE, "%s: the group has ended, as a rank was gone", mpi.name);
    return mc_fail(MICA_EDEVICE, "rank %d (process %lld on %s) has ended the group: %s", rank,
                   (long long)mpi.places[rank].pid, mpi.places[rank].host, mpi.farewell.why);
}

/* ---- waiting ---- */

static void rest(const state *s, uint64_t waited_us) {
    if (waited_us < 2000 && !s->sleeps) {
        (void)sched_yield();
        return;
    }
    const struct timespec nap = {.tv_nsec = waited_us < 100000 ? 50000 : 500000};
    (void)nanosleep(&nap, NULL);
}

/* Takes the lock, for calls of MPI: none may follow when a rank is gone, as those that have not
 * ended would still write to where their callers had memory.
 * errors  MICA_EDEVICE a rank is gone, or has ended the group; the lock is not taken */
static mica_status enter(void) {
    (void)pthread_mutex_lock(&mpi.lock);
    if (atomic_load(&mpi.given_up)) fail_group();
    if (!mpi.failed) return MICA_OK;
    mica_status status = say_over();
    (void)pthread_mutex_unlock(&mpi.lock);
    return status;
}

static mica_status leave(int code, const char *what) {
    (void)pthread_mutex_unlock(&mpi.lock);
    return check(code, what);
}

/* What a call came to that was started: a rank whose connection has ended may have said why. */
static mica_status say_broken(int code, const char *what) {
    int rank = code - MC_TCP_GONE;
    if (mpi.quitter) return say_over();
    if (rank < 0 || !mpi.beating) return check(code, what);
    return mc_fail(MICA_EDEVICE, "rank %d (process %lld on %s) has ended, or its connection has",
                   rank, (long long)mpi.places[rank].pid, mpi.places[rank].host);
}

/* Ends the group for this rank; `lock` is held. Others that wait in it are told the same. */
static mica_status fail_by(mica_status status) {
    bool given_up = mpi.quitter || atomic_load(&mpi.given_up);
    if (!mpi.failed && !given_up) snprintf(mpi.why, sizeof mpi.why, "%s", mica_last_error());
    fail_group();
    return status;
}

/* Waits until what was started is done. */
static mica_status await(const state *s, void **request) {
    uint64_t start = mc_now_us(), looked = start, now = start;
    for (;;) {
        int done = 0, silent = -1;
        MC_TRY(enter());
        int code = mpi.shim->test(request, &done);
        bool look = !code && !done && now > looked + 1000000;
        if (look) silent = find_silent(s);
        if (code) take_beats();
        bool given_up = !done && atomic_load(&mpi.given_up);
        mica_status status = MICA_OK;
        if (code)
            status = fail_by(say_broken(code, "a collective"));
        else if (given_up)
            status = fail_by(say_over());
        else if (silent >= 0)
            status = fail_by(say_gone(silent));
        MC_TRY(leave(0, ""));
        if (status != MICA_OK || done) return status;
        if (look) looked = now;
        now = mc_now_us();
        rest(s, now - start);
    }
}

/* Starts a call of the shim, which has `request`, and waits for it. */
#define RUN(s, what, call)                   \
    do {                                     \
        void *request = NULL;                \
        MC_TRY(enter());                     \
        MC_TRY(leave(mpi.shim->call, what)); \
        MC_TRY(await(s, &request));          \
    } while (0)

/* ---- collectives: in pieces, as MPI counts in ints ---- */

static mica_status gather_piece(state *s, const void *in, size_t bytes, void *out) {
    RUN(s, "all_gather", all_gather(s->comm, in, (int)bytes, out, &request));
    return MICA_OK;
}

static mica_status exchange_piece(state *s, const void *in, size_t bytes, void *out) {
    RUN(s, "all_to_all", all_to_all(s->comm, in, (int)bytes, out, &request));
    return MICA_OK;
}

/* What is larger than a piece goes by way of memory of its own, as ranks' parts lie apart.
 * exchange: each rank gets a part of in, too; else all get the same. */
static mica_status in_pieces(state *s, const uint8_t *in, size_t bytes, uint8_t *out,
                             bool exchange) {
    size_t n = (size_t)s->size, piece = PIECE / n;
    if (bytes <= piece)
        return exchange ? exchange_piece(s, in, bytes, out) : gather_piece(s, in, bytes, out);
    uint8_t *from = mc_alloc(2 * PIECE), *to = from ? from + PIECE : NULL;
    if (!from) return mc_fail_nomem("a collective");
    mica_status status = MICA_OK;
    for (size_t at = 0; status == MICA_OK && at < bytes; at += piece) {
        size_t count = bytes - at < piece ? bytes - at : piece;
        for (size_t r = 0; r < (exchange ? n : 1); r++)
            memcpy(from + r * count, in + r * bytes + at, count);
        status = exchange ? exchange_piece(s, from, count, to) : gather_piece(s, from, count, to);
        for (size_t r = 0; status == MICA_OK && r < n; r++)
            memcpy(out + r * bytes + at, to + r * count, count);
    }
    mc_free(from);
    return status;
}

static mica_status all_gather(void *context, const void *in, size_t bytes, void *out) {
    return in_pieces(context, in, bytes, out, false);
}

static mica_status all_to_all(void *context, const void *in, size_t bytes, void *out) {
    return in_pieces(context, in, bytes, out, true);
}

static mica_status broadcast(void *context, void *data, size_t bytes, int root) {
    state *s = context;
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t count = bytes - at < PIECE ? bytes - at : PIECE;
        RUN(s, "broadcast", broadcast(s->comm, (char *)data + at, (int)count, root, &request));
    }
    return MICA_OK;
}

static mica_status send_data(void *context, const void *data, size_t bytes, int to) {
    state *s = context;
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t count = bytes - at < PIECE ? bytes - at : PIECE;
        RUN(s, "send", send(s->comm, (const char *)data + at, (int)count, to, DATA, &request));
    }
    return MICA_OK;
}

static mica_status recv_data(void *context, void *data, size_t bytes, int from) {
    state *s = context;
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t count = bytes - at < PIECE ? bytes - at : PIECE;
        RUN(s, "recv", recv(s->comm, (char *)data + at, (int)count, from, DATA, &request));
    }
    return MICA_OK;
}

/* ---- beginning and end ---- */

/* A duplicate of the world. */
static mica_status duplicate_world(void **comm) {
    RUN(&mpi.world, "MPI_Comm_idup", duplicate(mpi.world.comm, comm, &request));
    return MICA_OK;
}

static void close_comm(void **comm) {
    (void)pthread_mutex_lock(&mpi.lock);
    if (!mpi.failed) mpi.shim->free(comm);
    (void)pthread_mutex_unlock(&mpi.lock);
}

static void free_state(state *s) {
    close_comm(&s->comm);
    mc_free(s->ranks);
    mc_free(s);
}

/* The state of a communicator, which is closed if there is no memory. */
static mica_status new_state(void *comm, int rank, int size, void **out) {
    state *s = mc_calloc(1, sizeof *s);
    int *ranks = mc_calloc((size_t)size, sizeof *ranks);
    if (!s || !ranks) {
        close_comm(&comm);
        mc_free(ranks);
        mc_free(s);
        return mc_fail_nomem("a group");
    }
    *s = (state){.comm = comm, .rank = rank, .size = size, .ranks = ranks};
    *out = s;
    return MICA_OK;
}

/* As many ranks as the launcher says; a library of another MPI would find itself alone. */
static mica_status check_size(void) {
    int told = mpi.shim == &mc_tcp_shim ? 0 : told_size();
    if (told == 0 || told == mpi.world.size) return MICA_OK;
    return mc_fail(MICA_EDEVICE,
                   "mpi: %s is %d, and %s finds %d: another MPI has started this process",
                   launchers[find_launcher()].size, told, mpi.shim->library, mpi.world.size);
}

static mica_status new_places(void) {
    size_t n = (size_t)mpi.world.size;
    mpi.world.ranks = mc_calloc(n, sizeof *mpi.world.ranks);
    mpi.places = mc_calloc(n, sizeof *mpi.places);
    mpi.seen_us = mc_calloc(n, sizeof *mpi.seen_us);
    mpi.sending = mc_calloc(n, sizeof *mpi.sending);
    if (!mpi.world.ranks || !mpi.places || !mpi.seen_us || !mpi.sending)
        return mc_fail_nomem("the ranks of a group");
    for (int i = 0; i < mpi.world.size; i++) {
        mpi.world.ranks[i] = i;
        mpi.seen_us[i] = mc_now_us();
    }
    return MICA_OK;
}

static mica_status share_places(void) {
    place own = {.pid = getpid()};
    mc_host_name(own.host, sizeof own.host);
    return all_gather(&mpi.world, &own, sizeof own, mpi.places);
}

/* Starts it, and gives it up where other ranks do not come: its thread then waits on. */
static mica_status start(double patience_s) {
    uint64_t until = mc_now_us() + (uint64_t)((patience_s + START_S) * 1e6);
    mc_tcp_set_limit(until);
    if (mpi.shim == &mc_tcp_shim) until += TCP_S * UINT64_C(1000000);
    if (mc_thread_start(&mpi.thread, live, NULL) != 0)
        return mc_fail(MICA_ENOMEM, "%s: no thread could be started", mpi.name);
    mpi.has_thread = true;
    (void)pthread_mutex_lock(&mpi.lock);
    while (!mpi.started && mc_now_us() < until)
        wait_for_sign(BEAT_MS);
    bool started = mpi.started;
    (void)pthread_mutex_unlock(&mpi.lock);
    if (started) return check(mpi.code, "the start");
    mpi.has_thread = false;
    (void)pthread_detach(mpi.thread);
    return mc_fail(
        MICA_EDEVICE,
        "%s: it has not started within %.0f s: a rank stands still, or cannot be reached", mpi.name,
        patience_s + START_S);
}

static mica_status begin(double patience_s) {
    void *beats;
    MC_TRY(start(patience_s));
    mpi.patience_us = (uint64_t)(patience_s * 1e6);
    MC_TRY(check_size());
    MC_TRY(new_places());
    MC_TRY(duplicate_world(&beats));
    mpi.beats = beats;
    MC_TRY(share_places());
    (void)pthread_mutex_lock(&mpi.lock);
    mpi.beating = true;
    (void)pthread_cond_broadcast(&mpi.sign);
    (void)pthread_mutex_unlock(&mpi.lock);
    return MICA_OK;
}

/* finalizes: the last group has closed. Else others may wait, and nothing is finalised; and of a
 * group with a rank that is gone nothing would end. */
static void end(bool finalizes) {
    (void)pthread_mutex_lock(&mpi.lock);
    mpi.ending = true;
    mpi.finalizes = finalizes;
    (void)pthread_cond_broadcast(&mpi.sign);
    (void)pthread_mutex_unlock(&mpi.lock);
    if (mpi.has_thread) (void)pthread_join(mpi.thread, NULL);
    mpi.has_thread = false;
    mpi.over = true;
}

static mica_status new_world(void **out) {
    void *comm;
    MC_TRY(duplicate_world(&comm));
    MC_TRY(new_state(comm, mpi.world.rank, mpi.world.size, out));
    memcpy(((state *)*out)->ranks, mpi.world.ranks,
           (size_t)mpi.world.size * sizeof *mpi.world.ranks);
    mpi.groups++;
    return MICA_OK;
}

/* The start of both is one: a process has ranks of one of them. */
static mica_status open_world(const char *name, double patience_s, void **out, int *rank,
                              int *size) {
    if (mpi.over) return mc_fail(MICA_EDEVICE, "%s: it has ended in this process", mpi.name);
    if (mpi.groups && strcmp(name, mpi.name) != 0)
        return mc_fail(MICA_EDEVICE, "%s: this process has a group of %s", name, mpi.name);
    mpi.name = name;
    if (!mpi.groups) {
        mica_status status = begin(patience_s);
        if (status != MICA_OK && mpi.shim) end(false);
        MC_TRY(status);
    }
    mica_status status = new_world(out);
    if (status != MICA_OK && !mpi.groups) end(false);
    *rank = mpi.world.rank;
    *size = mpi.world.size;
    return status;
}

static mica_status open_mpi(double patience_s, void **out, int *rank, int *size) {
    if (!mpi.groups && !mpi.over) MC_TRY(load());
    return open_world("mpi", patience_s, out, rank, size);
}

static mica_status open_tcp(double patience_s, void **out, int *rank, int *size) {
    if (!mc_tcp_told(rank, size))
        return mc_fail(MICA_EINVAL, "tcp: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT do not say "
                                    "which ranks there are");
    if (!mpi.groups && !mpi.over) mpi.shim = &mc_tcp_shim;
    return open_world("tcp", patience_s, out, rank, size);
}

static void close_group(void *context) {
    free_state(context);
    if (--mpi.groups == 0) end(true);
}

static mica_status split(void *context, int color, int key, void **part, int *rank, int *size) {
    state *s = context;
    void *comm = NULL;
    MC_TRY(enter());
    MC_TRY(leave(mpi.shim->split(s->comm, color, key, &comm, rank, size), "MPI_Comm_split"));
    MC_TRY(new_state(comm, *rank, *size, part));
    mpi.groups++;
    mica_status status =
        all_gather(*part, &mpi.world.rank, sizeof mpi.world.rank, ((state *)*part)->ranks);
    if (status != MICA_OK) close_group(*part);
    return status;
}

/* Takes the lock, unless a call holds it that does not end. */
static bool lock_in_time(void) {
    bool locked = false;
    for (int ms = 0; !locked && ms < 1000; ms++) {
        locked = pthread_mutex_trylock(&mpi.lock) == 0;
        if (!locked) (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return locked;
}

static mica_status check_ranks(void *context) {
    MC_TRY(enter());
    int silent = find_silent(context);
    bool given_up = atomic_load(&mpi.given_up);
    mica_status status = MICA_OK;
    if (silent >= 0)
        status = fail_by(say_gone(silent));
    else if (given_up)
        status = fail_by(say_over());
    MC_TRY(leave(0, ""));
    return status;
}

static void sleep_at_once(void *context) {
    ((state *)context)->sleeps = true;
}

static void give_up(void *context, const char *why) {
    (void)context;
    if (lock_in_time()) {
        bool first = !mpi.failed && !atomic_load(&mpi.given_up);
        if (first) snprintf(mpi.farewell.why, sizeof mpi.farewell.why, "%s", why);
        atomic_store(&mpi.given_up, true);
        (void)pthread_cond_broadcast(&mpi.sign);
        (void)pthread_mutex_unlock(&mpi.lock);
    }
    atomic_store(&mpi.given_up, true);
}

/* Ends all ranks: MPI does, with their launcher; over TCP the others are told, and end. */
static void abort_group(void *context, int code) {
    char why[64];
    bool tells = mpi.shim == &mc_tcp_shim;
    snprintf(why, sizeof why, "it ends with code %d", code);
    if (tells && code) give_up(context, why);
    bool locked = lock_in_time();
    if (tells && code && locked) fail_group();
    mpi.shim->abort(NULL, code);
    if (locked) (void)pthread_mutex_unlock(&mpi.lock);
}

static bool is_started_by_tcp(void) {
    int rank, size;
    return mc_tcp_told(&rank, &size);
}

/* Back ends, which are the same once they have started. */
#define BACK_END(id, is_told, starts)                                                            \
    {                                                                                            \
        .name = id, .is_started = is_told, .open = starts, .split = split, .close = close_group, \
        .abort = abort_group, .all_gather = all_gather, .all_to_all = all_to_all,                \
        .broadcast = broadcast, .send = send_data, .recv = recv_data, .give_up = give_up,        \
        .check = check_ranks, .sleep = sleep_at_once,                                            \
    }

const mc_group_ops mc_group_mpi = BACK_END("mpi", is_started, open_mpi);
const mc_group_ops mc_group_tcp = BACK_END("tcp", is_started_by_tcp, open_tcp);

// NCCL as far as mica calls it, between processes of one machine: memory that they share. What it
// does is work of an emulated stream (emulated.cpp), and comes when somebody waits for that.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

int emulated_push(void *stream, std::function<void()> work);

static constexpr int RANKS = 8;
static constexpr size_t PIECE = 1 << 16;

struct box {
    std::atomic<uint64_t> sent, taken;
    char data[PIECE];
};

struct shared {
    std::atomic<uint64_t> arrived[RANKS], left[RANKS];
    char data[RANKS][PIECE];
    box boxes[RANKS][RANKS]; // [from][to]
};

struct comm {
    shared *memory;
    int size, rank;
    uint64_t rounds;
    std::atomic<bool> aborted;
};

struct unique_id {
    char name[128];
};

static int push(const char *name, int type, void *stream, std::function<void()> work) {
    static const char *traces = getenv("MICA_EMULATED_TRACE");
    if (traces) fprintf(stderr, "%s\n", name);
    return type ? 4 : emulated_push(stream, std::move(work)); // bytes are all that is moved
}

static bool wait_for(comm *c, const std::atomic<uint64_t> &n, uint64_t least) {
    while (n.load() < least && !c->aborted)
        sched_yield();
    return !c->aborted;
}

// All ranks show a piece to all, and take what `take` wants of them.
static void meet(comm *c, const void *own, size_t bytes, const std::function<void()> &take) {
    uint64_t round = ++c->rounds;
    for (int r = 0; r < c->size; r++)
        if (!wait_for(c, c->memory->left[r], round - 1)) return;
    memcpy(c->memory->data[c->rank], own, bytes);
    c->memory->arrived[c->rank] = round;
    for (int r = 0; r < c->size; r++)
        if (!wait_for(c, c->memory->arrived[r], round)) return;
    take();
    c->memory->left[c->rank] = round;
}

static size_t piece_at(size_t at, size_t bytes) {
    return bytes - at < PIECE ? bytes - at : PIECE;
}

static void gather(comm *c, const char *in, char *out, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = piece_at(at, bytes);
        meet(c, in + at, n, [=] {
            for (int r = 0; r < c->size; r++)
                memcpy(out + static_cast<size_t>(r) * bytes + at, c->memory->data[r], n);
        });
    }
}

static void broadcast(comm *c, const char *in, char *out, size_t bytes, int root) {
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t n = piece_at(at, bytes);
        meet(c, in + at, n, [=] { memcpy(out + at, c->memory->data[root], n); });
    }
}

static void send(comm *c, const char *data, size_t bytes, int to) {
    box &b = c->memory->boxes[c->rank][to];
    for (size_t at = 0; at < bytes; at += PIECE) {
        if (!wait_for(c, b.taken, b.sent)) return;
        memcpy(b.data, data + at, piece_at(at, bytes));
        b.sent++;
    }
}

static void receive(comm *c, char *data, size_t bytes, int from) {
    box &b = c->memory->boxes[from][c->rank];
    for (size_t at = 0; at < bytes; at += PIECE) {
        if (!wait_for(c, b.sent, b.taken + 1)) return;
        memcpy(data + at, b.data, piece_at(at, bytes));
        b.taken++;
    }
}

extern "C" {

int ncclGetVersion(int *version) {
    *version = 22703;
    return 0;
}

int ncclGetUniqueId(unique_id *id) {
    static int made;
    *id = unique_id();
    snprintf(id->name, sizeof id->name, "/mica-nccl-%d-%d", static_cast<int>(getpid()), made++);
    int fd = shm_open(id->name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(shared)) != 0) return 2;
    close(fd);
    return 0;
}

int ncclCommInitRank(void **made, int size, unique_id id, int rank) {
    // $MICA_EMULATED_NCCL: stop: the last rank stands still here
    const char *mode = getenv("MICA_EMULATED_NCCL");
    if (getenv("MICA_EMULATED_TRACE")) fprintf(stderr, "ncclCommInitRank\n");
    if (mode && strcmp(mode, "stop") == 0 && rank == size - 1) raise(SIGSTOP);
    int fd = shm_open(id.name, O_RDWR, 0600);
    if (fd < 0 || size > RANKS) return 2;
    void *memory = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return 2;
    comm *c = new (std::nothrow) comm{static_cast<shared *>(memory), size, rank, 0, {false}};
    if (!c) return 2;
    meet(c, "", 0, [] {});
    if (rank == 0) shm_unlink(id.name);
    *made = c;
    return 0;
}

int ncclCommDestroy(void *of) {
    comm *c = static_cast<comm *>(of);
    if (getenv("MICA_EMULATED_TRACE")) fprintf(stderr, "ncclCommDestroy\n");
    munmap(c->memory, sizeof(shared));
    delete c;
    return 0;
}

int ncclCommAbort(void *of) {
    static_cast<comm *>(of)->aborted = true; // streams may still have its work
    return 0;
}

int ncclCommGetAsyncError(void *, int *error) {
    *error = 0;
    return 0;
}

int ncclAllGather(const void *in, void *out, size_t count, int type, void *of, void *stream) {
    comm *c = static_cast<comm *>(of);
    auto from = static_cast<const char *>(in);
    auto to = static_cast<char *>(out);
    return push("ncclAllGather", type, stream, [=] { gather(c, from, to, count); });
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *of,
                  void *stream) {
    comm *c = static_cast<comm *>(of);
    auto from = static_cast<const char *>(in);
    auto to = static_cast<char *>(out);
    return push("ncclBroadcast", type, stream, [=] { broadcast(c, from, to, count, root); });
}

int ncclSend(const void *data, size_t count, int type, int to, void *of, void *stream) {
    comm *c = static_cast<comm *>(of);
    auto from = static_cast<const char *>(data);
    return push("ncclSend", type, stream, [=] { send(c, from, count, to); });
}

int ncclRecv(void *data, size_t count, int type, int from, void *of, void *stream) {
    comm *c = static_cast<comm *>(of);
    auto to = static_cast<char *>(data);
    return push("ncclRecv", type, stream, [=] { receive(c, to, count, from); });
}
}

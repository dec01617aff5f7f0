/* Windows tells nobody of the end behind bytes that were not read: a thread looks at what waits to
 * be read of each socket. What it finds it tells by a byte in a pair of sockets. */
#include "serve/http/hangup.h"

#include <sys/socket.h>

#include "base/system.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct row {
    SOCKET fd;
    void *user;
    bool gone, told;
} row;

typedef struct watcher {
    int ends[2]; /* the first is the descriptor */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    row *rows;
    size_t count, room;
    bool ending, signalled;
} watcher;

enum { MAX_WATCHERS = 256, LOOK_MS = 50 };
static watcher *watchers[MAX_WATCHERS];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

static watcher *find_watcher(int fd) {
    watcher *found = NULL;
    pthread_mutex_lock(&table);
    for (int i = 0; i < MAX_WATCHERS && !found; i++)
        if (watchers[i] && watchers[i]->ends[0] == fd) found = watchers[i];
    pthread_mutex_unlock(&table);
    return found;
}

/* Whether the other side has ended or cut the connection: nothing waits to be read, and the socket
 * can be read. */
static bool has_gone(const WSAPOLLFD *looked) {
    char byte;
    if (looked->revents & (POLLHUP | POLLERR)) return true;
    if (!(looked->revents & POLLRDNORM)) return false;
    return (recv)(looked->fd, &byte, 1, MSG_PEEK) == 0;
}

/* Looks once at those that have not gone. Sockets change only with the lock. */
static void look(watcher *w) {
    bool news = false;
    for (size_t i = 0; i < w->count; i++) {
        WSAPOLLFD asked = {.fd = w->rows[i].fd, .events = POLLRDNORM};
        if (w->rows[i].gone || WSAPoll(&asked, 1, 0) <= 0 || !has_gone(&asked)) continue;
        w->rows[i].gone = news = true;
    }
    if (news && !w->signalled) w->signalled = write(w->ends[1], "", 1) == 1;
}

static void *run_watcher(void *context) {
    watcher *w = context;
    for (bool ending = false; !ending;) {
        Sleep(LOOK_MS);
        pthread_mutex_lock(&w->lock);
        ending = w->ending;
        if (!ending) look(w);
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

static bool enter(watcher *w) {
    int at = 0;
    pthread_mutex_lock(&table);
    while (at < MAX_WATCHERS && watchers[at])
        at++;
    if (at < MAX_WATCHERS) watchers[at] = w;
    pthread_mutex_unlock(&table);
    return at < MAX_WATCHERS;
}

static void leave(const watcher *w) {
    pthread_mutex_lock(&table);
    for (int i = 0; i < MAX_WATCHERS; i++)
        if (watchers[i] == w) watchers[i] = NULL;
    pthread_mutex_unlock(&table);
}

int mc_hangup_open(void) {
    watcher *w = calloc(1, sizeof *w);
    if (!w || socketpair(AF_UNIX, SOCK_STREAM, 0, w->ends) != 0) {
        free(w);
        return -1;
    }
    pthread_mutex_init(&w->lock, NULL);
    if (enter(w)) {
        if (mc_thread_start(&w->thread, run_watcher, w) == 0) return w->ends[0];
        leave(w);
    }
    close(w->ends[0]);
    close(w->ends[1]);
    pthread_mutex_destroy(&w->lock);
    free(w);
    errno = EMFILE;
    return -1;
}

void mc_hangup_close(int fd) {
    watcher *w = find_watcher(fd);
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    leave(w);
    close(w->ends[0]);
    close(w->ends[1]);
    pthread_mutex_destroy(&w->lock);
    free(w->rows);
    free(w);
}

bool mc_hangup_add(int watching, int fd, void *user) {
    watcher *w = find_watcher(watching);
    pthread_mutex_lock(&w->lock);
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        row *rows = realloc(w->rows, room * sizeof *rows);
        if (rows) w->rows = rows;
        if (rows) w->room = room;
    }
    bool fits = w->count < w->room;
    if (fits) w->rows[w->count++] = (row){.fd = (SOCKET)(fd & ~MC_SOCKET), .user = user};
    pthread_mutex_unlock(&w->lock);
    if (!fits) errno = ENOMEM;
    return fits;
}

void mc_hangup_remove(int watching, int fd) {
    watcher *w = find_watcher(watching);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->count; i++)
        if (w->rows[i].fd == (SOCKET)(fd & ~MC_SOCKET)) {
            w->rows[i] = w->rows[--w->count];
            break;
        }
    pthread_mutex_unlock(&w->lock);
}

size_t mc_hangup_take(int watching, void **users, size_t max) {
    watcher *w = find_watcher(watching);
    size_t found = 0;
    char byte;
    bool more = false;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->count; i++) {
        if (!w->rows[i].gone || w->rows[i].told) continue;
        more = found == max;
        if (more) break;
        w->rows[i].told = true;
        users[found++] = w->rows[i].user;
    }
    if (w->signalled && !more) w->signalled = read(w->ends[0], &byte, 1) != 1;
    pthread_mutex_unlock(&w->lock);
    return found;
}

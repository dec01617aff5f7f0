#include "base/cgroup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 1024

/* A controller's mount point, and the path of this process's group below it. */
typedef struct group {
    char mount[PATH_BYTES];
    char path[PATH_BYTES]; /* "" or "/a/b" */
} group;

typedef void (*group_fn)(const char *dir, void *context);

static bool read_line(const char *dir, const char *name, char *line, size_t bytes) {
    char path[3 * PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
    if (!file) return false;
    bool got = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    return got;
}

static bool has_word(const char *list, size_t len, const char *word) {
    size_t word_len = strlen(word);
    for (size_t i = 0; i < len;) {
        const char *comma = memchr(list + i, ',', len - i);
        size_t end = comma ? (size_t)(comma - list) : len;
        if (end - i == word_len && memcmp(list + i, word, word_len) == 0) return true;
        i = end + 1;
    }
    return false;
}

/* A line of /proc/self/cgroup is "id:controllers:path"; v2 has no controllers. Fills *out if the
 * line is for the controller (v1), or for all of them (v2, controller ""). */
static bool parse_line(char *line, const char *root, const char *controller, group *out) {
    line[strcspn(line, "\n")] = 0;
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) return false;
    list++;
    size_t len = (size_t)(path - list);
    path++;
    if (*controller ? !has_word(list, len, controller) : len != 0) return false;
    int n = snprintf(out->mount, sizeof out->mount, "%s/sys/fs/cgroup%s%.*s", root,
                     *controller ? "/" : "", (int)len, list);
    int m = snprintf(out->path, sizeof out->path, "%s", strcmp(path, "/") == 0 ? "" : path);
    return n > 0 && (size_t)n < sizeof out->mount && m >= 0 && (size_t)m < sizeof out->path;
}

static bool find_group(const char *root, const char *controller, group *out) {
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    char line[PATH_BYTES];
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = parse_line(line, root, controller, out);
    fclose(file);
    return found;
}

/* Calls fn for the folder of the process's group and for all above it. In a container the path may
 * be the host's: fn must skip a folder that does not exist. */
static void walk_up(group *g, group_fn fn, void *context) {
    char dir[2 * PATH_BYTES];
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", g->mount, g->path);
        fn(dir, context);
        char *slash = strrchr(g->path, '/');
        if (!slash) return;
        *slash = 0;
    }
}

static void take_quota(double quota, double period, int *cpus) {
    if (!(quota > 0) || !(period > 0)) return; /* -1 and "max" mean none */
    double share = quota / period;
    int whole = share < 1e6 ? (int)share : 1000000;
    if (whole < share) whole++;
    if (*cpus == 0 || whole < *cpus) *cpus = whole;
}

static void read_cpu_v2(const char *dir, void *cpus) {
    char line[128];
    double quota, period;
    if (!read_line(dir, "cpu.max", line, sizeof line)) return;
    if (sscanf(line, "%lf %lf", &quota, &period) == 2) take_quota(quota, period, cpus);
}

static void read_cpu_v1(const char *dir, void *cpus) {
    char quota[64], period[64];
    if (!read_line(dir, "cpu.cfs_quota_us", quota, sizeof quota)) return;
    if (!read_line(dir, "cpu.cfs_period_us", period, sizeof period)) return;
    take_quota(strtod(quota, NULL), strtod(period, NULL), cpus);
}

static void take_memory(const char *dir, const char *name, uint64_t *bytes) {
    char line[64];
    uint64_t limit;
    if (!read_line(dir, name, line, sizeof line)) return;
    if (sscanf(line, "%" SCNu64, &limit) == 1 && limit < *bytes) *bytes = limit;
}

static void read_memory_v2(const char *dir, void *bytes) {
    take_memory(dir, "memory.max", bytes);
}

static void read_memory_v1(const char *dir, void *bytes) {
    take_memory(dir, "memory.limit_in_bytes", bytes);
}

int mc_cgroup_cpus(const char *root) {
    int cpus = 0;
    group g;
    if (find_group(root, "", &g)) walk_up(&g, read_cpu_v2, &cpus);
    if (find_group(root, "cpu", &g)) walk_up(&g, read_cpu_v1, &cpus);
    return cpus;
}

uint64_t mc_cgroup_memory_bytes(const char *root) {
    uint64_t bytes = UINT64_MAX;
    group g;
    if (find_group(root, "", &g)) walk_up(&g, read_memory_v2, &bytes);
    if (find_group(root, "memory", &g)) walk_up(&g, read_memory_v1, &bytes);
    return bytes;
}

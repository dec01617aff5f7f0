#include "cuda/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { MAX_ROWS = 2048 };

/* A kernel over a grid. */
typedef struct profile_row {
    mc_cuda_kernel kernel;
    mc_cuda_grid grid;
    uint64_t count;
    double us;
} profile_row;

struct mc_cuda_profile {
    const char *path;
    void *from, *to;
    int n;
    profile_row rows[MAX_ROWS];
};

static void discard(struct mc_cuda_profile *p) {
    if (p->from) (void)mc_cuda.event_free(p->from);
    if (p->to) (void)mc_cuda.event_free(p->to);
    mc_free(p);
}

void mc_cuda_profile_open(struct mc_cuda_profile **profile) {
    /* $MICA_CUDA_PROFILE: a file that receives the time of each kernel */
    const char *path = getenv("MICA_CUDA_PROFILE");
    *profile = NULL;
    if (!path || path[0] == '\0') return;
    struct mc_cuda_profile *p = mc_calloc(1, sizeof *p);
    if (!p) return;
    p->path = path;
    if (mc_cuda.event_new(&p->from, 0) != 0 || mc_cuda.event_new(&p->to, 0) != 0)
        discard(p);
    else
        *profile = p;
}

void mc_cuda_profile_close(struct mc_cuda_profile *p) {
    static const char *const names[] = {
#define KERNEL_ROW(file, ENUM, name) #name,
#include "cuda/kern/kernel_list.h"
    };
    if (!p) return;
    FILE *file = fopen(p->path, "w");
    for (int i = 0; file && i < p->n; i++) {
        const profile_row *r = &p->rows[i];
        fprintf(file, "%-24s %6lld %4lld %4lld %8llu %10.2f\n", names[r->kernel],
                (long long)r->grid.x, (long long)r->grid.y, (long long)r->grid.z,
                (unsigned long long)r->count, r->us / (double)r->count);
    }
    if (file) (void)fclose(file);
    discard(p);
}

void mc_cuda_profile_begin(struct mc_cuda_profile *p, void *stream) {
    (void)mc_cuda.event_record(p->from, stream);
}

static profile_row *find_row(struct mc_cuda_profile *p, mc_cuda_kernel kernel,
                             const mc_cuda_grid *grid) {
    for (int i = 0; i < p->n; i++) {
        const mc_cuda_grid *g = &p->rows[i].grid;
        if (p->rows[i].kernel == kernel && g->x == grid->x && g->y == grid->y && g->z == grid->z)
            return &p->rows[i];
    }
    if (p->n == MAX_ROWS) return NULL;
    p->rows[p->n] = (profile_row){.kernel = kernel, .grid = *grid};
    return &p->rows[p->n++];
}

void mc_cuda_profile_end(struct mc_cuda_profile *p, void *stream, mc_cuda_kernel kernel,
                         const mc_cuda_grid *grid) {
    float milliseconds = 0;
    profile_row *row = find_row(p, kernel, grid);
    if (mc_cuda.event_record(p->to, stream) != 0 || mc_cuda.event_wait(p->to) != 0 ||
        mc_cuda.event_time(&milliseconds, p->from, p->to) != 0 || !row)
        return;
    row->count++;
    row->us += (double)milliseconds * 1e3;
}

#include "cpu/windows.h"

#include <string.h>

#include "base/integer.h"

mc_windows mc_windows_of(const mc_attr_conv *attr, const mc_layout *x, const mc_layout *w) {
    mc_windows all = {.images = x->shape[0], .taps = 1, .flip = attr->flip != 0, .whole = true};
    int missing = 3 - (int)attr->spatial;
    for (int i = 0; i < missing; i++)
        all.axes[i] = (mc_window){.length = 1, .size = 1, .stride = 1, .dilation = 1, .base = 1};
    mc_conv_windows(attr, x, w, all.axes + missing);
    all.n = all.images;
    for (int i = 0; i < 3; i++) {
        const mc_window *d = &all.axes[i];
        all.places[i] = mc_window_count(d);
        all.n *= all.places[i];
        all.taps *= d->size;
        all.whole &= d->size == 1 && d->stride == 1 && d->base == 1 && d->lo == 0 && d->hi == 0;
    }
    return all;
}

/* The element along an axis that an element of the kernel meets; -1: none. */
static int64_t element_at(const mc_windows *w, int axis, int64_t place, int64_t tap) {
    const mc_window *d = &w->axes[axis];
    if (w->flip) tap = d->size - 1 - tap;
    int64_t at = place * d->stride + tap * d->dilation - d->lo;
    if (at < 0) return -1;
    if (d->base != 1) {
        if (at % d->base != 0) return -1;
        at /= d->base;
    }
    return at < d->length ? at : -1;
}

/* A window by its number. */
typedef struct place {
    int64_t image, at[3];
} place;

static place place_of(const mc_windows *w, int64_t window) {
    place p;
    for (int k = 2; k >= 0; k--) {
        p.at[k] = window % w->places[k];
        window /= w->places[k];
    }
    p.image = window;
    return p;
}

static void next_place(const mc_windows *w, place *p) {
    for (int k = 2; k >= 0; k--) {
        if (++p->at[k] < w->places[k]) return;
        p->at[k] = 0;
    }
    p->image++;
}

/* The line of x, along the last axis, that a line of a window lies in; NULL: none. */
static const char *find_line(const mc_windows *w, const place *p, int64_t i, int64_t j) {
    int64_t a = element_at(w, 0, p->at[0], i), b = element_at(w, 1, p->at[1], j);
    if (a < 0 || b < 0) return NULL;
    int64_t line = (p->image * w->axes[0].length + a) * w->axes[1].length + b;
    return w->x + line * w->axes[2].length * w->step;
}

/* The elements along a line of x, or NULL, of a window. */
static void find_taps(const mc_windows *w, const char *line, int64_t number, const void **rows) {
    const mc_window *d = &w->axes[2];
    int64_t at = number * d->stride - d->lo;
    if (!line || d->base != 1 || w->flip) {
        for (int64_t k = 0; k < d->size; k++) {
            int64_t element = line ? element_at(w, 2, number, k) : -1;
            rows[k] = element < 0 ? w->outside : line + element * w->step;
        }
        return;
    }
    for (int64_t k = 0; k < d->size; k++, at += d->dilation)
        rows[k] = at < 0 || at >= d->length ? w->outside : line + at * w->step;
}

/* Whether a window begins and ends in its line of x, as the one before it does. */
static bool is_inner(const mc_windows *w, int64_t number) {
    const mc_window *d = &w->axes[2];
    int64_t begin = (number - 1) * d->stride - d->lo;
    return number > 0 && d->base == 1 && begin >= 0 &&
           begin + d->stride + (d->size - 1) * d->dilation < d->length;
}

void mc_windows_find(const mc_windows *w, int64_t first, int64_t count, const void **rows) {
    for (int64_t n = 0; w->whole && n < count; n++)
        rows[n] = w->x + (first + n) * w->step;
    if (w->whole) return;
    place p = place_of(w, first);
    const int64_t size = w->axes[2].size, step = w->axes[2].stride * w->step;
    for (int64_t n = 0; n < count; n++, next_place(w, &p)) {
        if (n > 0 && is_inner(w, p.at[2])) { /* the one before it, further along */
            for (int64_t t = 0; t < w->taps; t++, rows++) {
                const char *before = rows[-w->taps];
                *rows = before == w->outside ? before : before + step;
            }
            continue;
        }
        for (int64_t i = 0; i < w->axes[0].size; i++)
            for (int64_t j = 0; j < w->axes[1].size; j++, rows += size)
                find_taps(w, find_line(w, &p, i, j), p.at[2], rows);
    }
}

/* The elements along a line of x. */
static void gather_line(const mc_windows *w, const char *line, int64_t at, char *to) {
    for (int64_t k = 0; k < w->axes[2].size; k++, to += w->bytes) {
        int64_t element = element_at(w, 2, at, k);
        memcpy(to, element < 0 ? w->outside : line + element * w->step, (size_t)w->bytes);
    }
}

/* The same where those of a window are neighbours in memory, without a gap. */
static void gather_neighbours(const mc_windows *w, const char *line, int64_t at, char *to) {
    const mc_window *d = &w->axes[2];
    int64_t first = at * d->stride - d->lo, bytes = w->bytes;
    int64_t begin = mc_min(first < 0 ? -first : 0, d->size);
    int64_t end = mc_max(mc_min(d->length - first, d->size), begin);
    for (int64_t k = 0; k < begin; k++)
        memcpy(to + k * bytes, w->outside, (size_t)bytes);
    if (end > begin)
        memcpy(to + begin * bytes, line + (first + begin) * bytes, (size_t)((end - begin) * bytes));
    for (int64_t k = end; k < d->size; k++)
        memcpy(to + k * bytes, w->outside, (size_t)bytes);
}

void mc_windows_gather(const mc_windows *w, int64_t window, char *to) {
    place p = place_of(w, window);
    const mc_window *d = &w->axes[2];
    bool neighbours = d->dilation == 1 && d->base == 1 && !w->flip && w->step == w->bytes;
    for (int64_t i = 0; i < w->axes[0].size; i++)
        for (int64_t j = 0; j < w->axes[1].size; j++, to += d->size * w->bytes) {
            const char *line = find_line(w, &p, i, j);
            if (line && neighbours)
                gather_neighbours(w, line, p.at[2], to);
            else if (line)
                gather_line(w, line, p.at[2], to);
            else
                for (int64_t k = 0; k < d->size; k++)
                    memcpy(to + k * w->bytes, w->outside, (size_t)w->bytes);
        }
}

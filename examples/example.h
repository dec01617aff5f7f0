/* What the examples of networks share: arrays of a file by their names, and a comparison. */
#ifndef EXAMPLES_EXAMPLE_H
#define EXAMPLES_EXAMPLE_H

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The array of a name; MICA_NONE: there is none. */
static inline mica_array find(const mica_named_array *arrays, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(arrays[i].name, name) == 0) return arrays[i].array;
    return MICA_NONE;
}

/* The largest difference of two f32 arrays; infinite after an error. */
static inline double difference(mica_scope *s, mica_array a, mica_array b) {
    double value;
    mica_array d = mica_max(s, mica_abs(s, mica_subtract(s, a, b)), NULL, 0, false);
    return mica_item_f64(d, &value) == MICA_OK ? value : INFINITY;
}

#endif

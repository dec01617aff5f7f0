/* Graphs of every op, for tests that save and load them. */
#ifndef GRAPH_GRAPHS_H
#define GRAPH_GRAPHS_H

#include <mica/mica.h>

#include "graph/graph.h"

enum { TEST_GRAPH_RESULTS = 176 };

typedef struct test_graph {
    mica_scope *s;
    mc_graph_port params[4];
    uint32_t results[TEST_GRAPH_RESULTS];
    mc_graph_ports ports; /* the two lists above */
    mica_array x;         /* the parameter f32 [4, 6] */
    mica_array k;         /* the parameter i32 [4, 6] */
    mica_array cache;     /* the parameter f32 [8, 6], donated */
    mica_array w;         /* a constant f32 [4, 64] */
} test_graph;

/* Each records some ops; all parts together record every op. */
typedef struct test_graph_part {
    const char *name;
    void (*record)(test_graph *g);
} test_graph_part;
extern const test_graph_part test_graph_parts[];
extern const size_t test_graph_n_parts;

/* Set a group of tests up whose *state is a device, and end it. */
int test_graph_open_device(void **state);
int test_graph_close_device(void **state);

/* Opens a scope and records a part, or with NULL all of them. */
void test_graph_open(test_graph *g, mica_device *device, const test_graph_part *part);
void test_graph_close(test_graph *g);

/* Registers "test.difference", of one number and two f32 of one shape: number a^2 - b. It fails
 * with MICA_EIO where an a is 1e9. */
void test_custom_register(void);

#endif

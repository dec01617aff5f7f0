/* A graph as bytes: what the results of a program are computed from, and what its parameters are.
 *
 * The format, in words of 8 bytes, little-endian:
 *
 *     header     "MICAGRPH"; the version and 0x01020304 (two u32); the file's size in bytes;
 *                mc_hash of all that follows; how many ops, nodes, parameters and results there
 *                are; where the data begin
 *     symbols    how many there are; of each its name
 *     lengths    how many expressions there are; of each its kind (mc_dim_kind), of a quotient what
 *                is divided and by what, of a sum the number of terms, of each its factor, how many
 *                it multiplies, and these, of one that is computed its mc_dim_op and two operands,
 *                or the bits of an f32 and 0. Here, and in shapes and attributes, 2^51 + i is the
 *                symbol i, or that expression behind the symbols; one names those before it
 *     parameter  its name; its node and 1 where it is donated (two u32)
 *     result     its name, "" where it has none; its node
 *     op         its name; how many attributes it has; of each the name and the number of words
 *     custom     how many ops of the application (mica/custom.h) the graph has; of each its name
 *     subgraphs  how many there are; of each how many parameters, nodes and results it has, the
 *                results' nodes, and its nodes, of which the first are the parameters. A subgraph
 *                within another comes before it
 *     node       the op's index and the number of operands (two u32); the operands' nodes,
 *                0xffffffff where absent; the attributes, a subgraph by its index
 *     leaf       0xffffffff and its kind (two u32); dtype and number of axes (two u32); the
 *                lengths; of a scalar its bytes, or the length that it is, of a constant that is
 *                elsewhere its name
 *     data       constants that are inside, in the order of their nodes, dense, each at a multiple
 *                of 64 bytes, as is the end
 *
 * A text is its length in bytes, then these, padded with 0. Numbers of enums are those of the
 * public headers. Ops and attributes go by their names: a new one changes no file, and an attribute
 * that a file lacks is 0. Strides of constants are not kept. Older versions are read, too: 5 has
 * numbers for lengths with symbols (graph/file_primes.h), 4 no names of the application's ops, 3 no
 * symbols, 2 no subgraphs, 1 no names of results either.
 *
 * A file is hostile: every count is held against the bytes that are left before memory is taken for
 * it, every node goes through mc_record, and no array may have more than 2^46 bytes.
 *
 * Threads: as scopes. */
#ifndef GRAPH_FILE_H
#define GRAPH_FILE_H

#include "base/arena.h"
#include "graph/graph.h"

#define MC_GRAPH_MAX_NAME 4096 /* bytes */

/* How constants, leaves that hold data and are no parameters, get into a file. */
typedef struct mc_graph_saver {
    /* The name by which who loads the graph finds it; NULL, as a function too: its elements go into
     * the file. The name is copied. */
    const char *(*name)(void *context, mica_array constant);
    /* Writes its elements, row-major, `bytes` of them. Like mica_read. */
    mica_status (*read)(void *context, mica_array constant, void *data, size_t bytes);
    void *context;
} mc_graph_saver;

/* Adds the file to *out: what the results need, and all parameters. Evaluated nodes are written as
 * the ops that they are. A parameter may be any node; what it was computed from is left out.
 * errors  MICA_EINVAL a node that is not there or is two parameters, a constant that was moved
 *         away, a name that is too long or no UTF-8; those of the saver; MICA_ENOMEM */
mica_status mc_graph_write(mica_scope *s, const mc_graph_ports *ports, const mc_graph_saver *saver,
                           mc_buffer *out);

/* Makes the leaves of a graph that is loaded. Each function records one new leaf in `into` that has
 * this dtype and shape, and returns it, or fails in `into`, as builders do. */
typedef struct mc_graph_loader {
    /* NULL, the function: mc_leaf_param. port: its name, and whether it is donated. */
    mica_array (*param)(void *context, mica_scope *into, const mc_graph_port *port,
                        const mc_layout *layout);
    /* A constant by its name. NULL: there are none. */
    mica_array (*named)(void *context, mica_scope *into, const char *name, const mc_layout *layout);
    /* A constant from its elements. data lies in the file's bytes: a leaf that does not copy it
     * must keep them; it is aligned to 64 bytes where these are. */
    mica_array (*inside)(void *context, mica_scope *into, const mc_layout *layout,
                         const void *data);
    void *context;
} mc_graph_loader;

/* Records the graph of a file in a scope. What *ports points to is in memory of the arena. After an
 * error the scope holds some of the nodes.
 *
 *  name    of the file, for error texts
 *  errors  MICA_EFORMAT; MICA_EUNSUPPORTED another version, an op or an attribute that is unknown,
 *          an op of the application that is not registered;
 *          those of the loader; MICA_ENOMEM */
mica_status mc_graph_read(const void *data, size_t bytes, const char *name, mica_scope *into,
                          const mc_graph_loader *loader, mc_arena *arena, mc_graph_ports *ports);

#endif

/* Networks in ONNX's format as programs.
 *
 *     mica_program *program = NULL;
 *     const mica_onnx_dim batch = {.name = "batch", .length = 1};
 *     mica_status status = mica_onnx_load(
 *         device, "model.onnx", &(mica_onnx_options){.dims = &batch, .n_dims = 1}, &program);
 *
 * Operators are those of opset 13 to 28. What depends on constants alone is computed while the
 * file is read: lengths, axes, and what else an operator must know beforehand. A build without
 * protobuf-c has these functions, too; they are MICA_EUNSUPPORTED.
 *
 * Threads: any thread may call these, several at once. */
#ifndef MICA_ONNX_H
#define MICA_ONNX_H

#include <mica/program.h>

MICA_BEGIN

/** A length by the name that a file has for it. An element of an array: it gets no new members. */
typedef struct mica_onnx_dim {
    const char *name; /* "batch"; of a length without a name its input and axis: "x.0" */
    int64_t length;   /* >= 0 */
} mica_onnx_dim;

/** Options of mica_onnx_load; zero means the default. */
typedef struct mica_onnx_options {
    size_t struct_bytes;       /* see mica/api.h */
    const mica_onnx_dim *dims; /* [n_dims]; those that the file does not have are left out */
    size_t n_dims;             /* number of dims */
} mica_onnx_options;

/** Makes a program of an ONNX file.
 *
 *  Its parameters are the inputs of the graph, but those that have initializers; its results are
 *  the outputs, by their names. Initializers become constants of the program. What is f64 in the
 *  file is computed in f32; such inputs and outputs stay f64. There are no texts, sequences and
 *  maps.
 *
 *  path     Tensors whose data is in files beside it are read from there: their names must not
 *           lead out of its folder; symbolic links in it are followed. Borrowed.
 *  options  NULL for the defaults. Borrowed.
 *  program  receives it, owned by the caller; NULL after an error.
 *  errors   begin with the path. MICA_ENOENT, MICA_EIO; MICA_EFORMAT it is no ONNX file, or its
 *           graph is malformed; MICA_EUNSUPPORTED operators that mica does not have (the text lists
 *           all, with domain, version and how many nodes), an attribute or dtype, or a shape that
 *           depends on what a run is given (the text names the node); MICA_EINVAL a length has no
 *           number (the text lists all); MICA_ESHAPE, MICA_EDTYPE a node does not fit its operands;
 *           MICA_ENOMEM
 *  source   onnx.ai/onnx/operators. */
MICA_API mica_status mica_onnx_load(mica_device *device, const char *path,
                                    const mica_onnx_options *options, mica_program **program);

/** The same of a file's bytes. Tensors whose data is in other files are refused.
 *
 *  data  [bytes]. Borrowed for the call. */
MICA_API mica_status mica_onnx_decode(mica_device *device, const void *data, size_t bytes,
                                      const mica_onnx_options *options, mica_program **program);

/** The number of operators that are known, and the name of the i-th; NULL past the end. */
MICA_API size_t mica_onnx_op_count(void);
MICA_API const char *mica_onnx_op_name(size_t i);

MICA_END

#endif

/* Networks in ONNX's format as programs.
 *
 *     mica_program *program = NULL;
 *     const mica_onnx_dim batch = {.name = "batch", .length = 1};
 *     mica_status status = mica_onnx_load(
 *         device, "model.onnx", &(mica_onnx_options){.dims = &batch, .n_dims = 1}, &program);
 *
 * A length that the file leaves open, and that the options do not fix, becomes a symbol of the
 * program (mica_program_dim): by its name in the file, else by its input and axis, "x.0".
 *
 * Operators are those of opset 6 to 28. What depends on constants alone is computed while the
 * file is read: lengths, axes, and what else an operator must know beforehand. A build without
 * protobuf-c has these functions, too; they are MICA_EUNSUPPORTED.
 *
 * Threads: any thread may call these, several at once. */
#ifndef MICA_ONNX_H
#define MICA_ONNX_H

#include <mica/program.h>

MICA_BEGIN

/** A length that is fixed. An element of an array: it gets no new members. */
typedef struct mica_onnx_dim {
    const char *name; /* as the file has it, "batch", or its place, an input and an axis: "x.0". The
                         place goes first */
    int64_t length;   /* >= 0 */
} mica_onnx_dim;

/** Options of mica_onnx_load; zero means the default. */
typedef struct mica_onnx_options {
    size_t struct_bytes;            /* see mica/api.h */
    const mica_onnx_dim *dims;      /* [n_dims] lengths that are fixed */
    size_t n_dims;                  /* number of dims */
    const mica_named_array *inputs; /* [n_inputs] inputs that are constants: arrays of the inputs'
                                       shapes, or of no axes, for all elements; of any dtype */
    size_t n_inputs;                /* number of inputs */
    char **notes; /* receives lines, "note ...", of what is computed otherwise than the file says,
                     or fails in some runs, freed with mica_free; NULL where there are none, or
                     after an error. NULL: they are not told */
} mica_onnx_options;

/** Makes a program of an ONNX file.
 *
 *  Its parameters are the inputs of the graph, but those that have initializers or are fixed; its
 *  results are the outputs, by their names. Initializers become constants of the program. What is
 *  f64 in the file is computed in f32, which notes tell; such inputs and outputs stay f64. A branch
 *  that cannot be built is an error of the run that takes it. Texts and maps are refused, and so
 *  are sequences as inputs or outputs, or whose length is not known while the file is read. An
 *  output whose length depends on values has room for all elements, and a result behind the others,
 *  "NAME.count", says how many are there: an executable gives these alone.
 *
 *  path     Tensors whose data is in files beside it are read from there: their names must not
 *           lead out of its folder; symbolic links in it are followed. Borrowed.
 *  options  NULL for the defaults. Borrowed.
 *  program  receives it, owned by the caller; NULL after an error.
 *  errors   begin with the path. MICA_ENOENT, MICA_EIO; MICA_EFORMAT it is no ONNX file, or its
 *           graph is malformed; MICA_EUNSUPPORTED operators, attributes, dtypes or an opset that
 *           mica does not have, or shapes that depend on what a run is given: the text lists all,
 *           with the nodes' names, and what to do; MICA_EINVAL all that is missing is numbers that
 *           nodes need where lengths are symbols (the text names both), or the options name a
 *           length or an input twice or without effect, or fix an input of integers to what is
 *           none; MICA_ENOENT the file has no length or input of the options'
 *           names (the text lists those that it has); MICA_ESHAPE, MICA_EDTYPE a node does not fit
 *           its operands; MICA_ENOMEM
 *  source   onnx.ai/onnx/operators. */
MICA_API mica_status mica_onnx_load(mica_device *device, const char *path,
                                    const mica_onnx_options *options, mica_program **program);

/** The same of a file's bytes. Tensors whose data is in other files are refused.
 *
 *  data  [bytes]. Borrowed for the call. */
MICA_API mica_status mica_onnx_decode(mica_device *device, const void *data, size_t bytes,
                                      const mica_onnx_options *options, mica_program **program);

/** What a file asks for, as text, whether mica can compute it or not: lines "opset 18", "input x
 *  f32[batch,8]" with what the options fix, "result y f32[batch,4]", "operator Conv 53" with the
 *  number of nodes, then for all that is missing "missing ..." with the nodes' names, and "advice
 *  ..." what to do, or "error ..." for another reason that there is no program, or the lines of
 *  notes (mica_onnx_options).
 *
 *  text    receives it, freed with mica_free; NULL after an error.
 *  errors  begin with the path. MICA_ENOENT, MICA_EIO; MICA_EFORMAT it is no ONNX file;
 *          MICA_ENOENT the file has no length or input of the options' names; MICA_EINVAL,
 *          MICA_ENOMEM */
MICA_API mica_status mica_onnx_print(mica_device *device, const char *path,
                                     const mica_onnx_options *options, char **text);

/** The number of operators that are known, and the name of the i-th; NULL past the end. */
MICA_API size_t mica_onnx_op_count(void);
MICA_API const char *mica_onnx_op_name(size_t i);

MICA_END

#endif

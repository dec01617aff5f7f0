/* Executables: programs that keep values by name, for callers that run one again and again.
 *
 *     mica_executable *exe = NULL;
 *     mica_status status = mica_executable_open(program, NULL, &exe);   // program may be closed
 *     status = mica_executable_set(exe, &(mica_input){.name = "w", .array = w});
 *     ...
 *     const mica_input x = {.name = "x", .data = numbers, .bytes = sizeof numbers};
 *     status = mica_executable_run(exe, &x, 1, into, results);
 *
 * Every parameter of the program may be given to a run, or be set, which keeps its value over runs:
 * weights, and state. A run takes what it is given, then what is set. A result may feed a parameter
 * (mica_executable_feed): it is its value from then on, moved and not copied, so that a parameter
 * that is donated is written in place. A parameter named "out0", "out1" ... is fed by the result of
 * that number, where their dtypes and shapes agree.
 *
 * After an error the executable is as it was before the call, but for two things. Where a run
 * fails, a parameter that is donated and fed may have been written over: it is not set then, and
 * the text says so. Of mica_executable_run_many the runs before the one that failed are over, and
 * what they feed stays.
 *
 * The environment, read when an executable is opened: MICA_MODE is the mode where options say none,
 * lazy, eager or compiled, in letters of any case; MICA_CHECK_NAN=1 makes a run fail (MICA_EINVAL)
 * at the first op whose result has a NaN or infinity and whose operands have none; MICA_TRACE=FILE
 * adds the times of a run's ops to a file of trace events, an array of JSON that is whole after
 * each run: runs are MICA_EIO where it cannot be written. These two evaluate each op by itself, as
 * MICA_MODE_EAGER does. MICA_PASSES_OFF names passes to leave out where options name none.
 *
 * Compiling runs passes. None changes bits, and each can be left out by its name: to find errors.
 *
 *     fold       what is computed from constants alone is computed once, where that takes at most
 *                64 KiB more memory than the constants, and 16 MiB more in all; not within control
 *                flow, nor what functions of the application compute (mica/custom.h)
 *     common     nodes that compute the same become one, but for those functions
 *     dead       results and operands of control flow that nothing reads go
 *     joints     matmuls of one operand run together
 *     epilogues  what goes row by row runs together, up to a matmul; what goes element by element
 *                runs with the convolution before it
 *     regions    what goes element by element runs together, in blocks that stay in the
 *                first-level cache; 16 ops at most
 *
 * The last three are those of a device whose kernels are mica's own, as "cpu". With them off, each
 * op runs alone. MICA_MODE_EAGER runs no pass.
 *
 * Precision: floats may be computed in other dtypes than those that were recorded. Casts are put
 * before the ops; values, results, and what goes in and out of control flow, keep their dtypes, and
 * so do the operands of view, to_fp8 and ops of the application. An astype to a float gives the
 * dtype of the policy, too: else it would round.
 *
 * Lengths that vary: a program may have symbols for lengths (mica_program_dim). Each run binds them
 * to the lengths of its values, of all parameters the same, and the program is compiled for them
 * once. A parameter that is fed by a result of another length has that length in the next run: so a
 * cache may grow.
 *
 * Lengths that depend on values: a result of an ONNX file may have a count (docs/onnx.md), which is
 * a result, too. mica_executable_run and the queued runs give its first elements alone, as many as
 * the count says; slots hold all that there is room for.
 *
 * Threads: an executable belongs to one thread at a time. Different ones run at once, clones
 * (mica_executable_clone) too. */
#ifndef MICA_EXECUTABLE_H
#define MICA_EXECUTABLE_H

#include <mica/program.h>

MICA_BEGIN

/** A program with values. It keeps the program, its device, and what is set. */
typedef struct mica_executable mica_executable;

/** How a program is run. The values are fixed: new ones are added at the end. On the CPU all give
 *  the same bits. */
typedef enum mica_mode {
    MICA_MODE_DEFAULT = 0,  /* what $MICA_MODE names (lazy, eager, compiled); else lazy */
    MICA_MODE_LAZY = 1,     /* compiled at the first run */
    MICA_MODE_EAGER = 2,    /* each op is evaluated by itself: an error names it. To find errors */
    MICA_MODE_COMPILED = 3, /* compiled when it is opened; what a device's own library makes of a
                               graph is made once, too (docs/mlx.md) */
} mica_mode;

/** What floats are computed in. The values are fixed: new ones are added at the end. */
typedef enum mica_precision {
    MICA_PRECISION_RECORDED = 0,     /* the dtypes that the program was recorded with */
    MICA_PRECISION_F32 = 1,          /* f32, however small the operands are */
    MICA_PRECISION_BF16_PRODUCTS = 2 /* products, matmul, quantized_matmul, gather_mm, gather_qmm
                                        and conv_general, of operands that are rounded to bf16, in
                                        f32 sums, rounded to bf16; all else in f32 */
} mica_precision;

/** The precision of an op. An element of an array: it gets no new members. */
typedef struct mica_op_precision {
    const char *op;   /* mica_op_name */
    mica_dtype dtype; /* a float; MICA_BOOL: as recorded */
} mica_op_precision;

/** Options of mica_executable_open; zero means the default. */
typedef struct mica_executable_options {
    size_t struct_bytes;    /* see mica/api.h */
    size_t slot_align;      /* bytes, a power of two: slots begin at multiples of it. 0: 64 */
    mica_mode mode;         /* how it is run */
    int no_fallback;        /* 1: ops that the device lacks are an error, and not the CPU's */
    const char *passes_off; /* names of passes that are left out, "fold,regions", or "all"; NULL:
                               those that $MICA_PASSES_OFF names. Borrowed */
    size_t max_plans;       /* of a program with symbols, how many lengths it is kept compiled for,
                               in all clones; those used longest ago go. 0: 32 */
    size_t max_plan_bytes;  /* and of how many bytes, one at least. 0: 64 MiB */
    mica_precision precision;               /* what floats are computed in */
    int unused;                             /* 0 */
    const mica_op_precision *op_precisions; /* [n_op_precisions] of single ops, instead. Borrowed
                                               while it is opened */
    size_t n_op_precisions;                 /* number of op_precisions */
    const char *const *slots; /* [n_slots] names of the results that have slots, in their order;
                                 NULL: all have. A name that is there twice has two slots. A result
                                 without one is not copied, as a cache that is fed. Borrowed while
                                 it is opened */
    size_t n_slots;           /* number of slots; 0 where slots is NULL */
} mica_executable_options;

/** Opens an executable of a program.
 *
 *  program     may be closed afterwards.
 *  options     NULL for the defaults. Borrowed.
 *  executable  receives it, owned by the caller; NULL after an error.
 *  errors      MICA_EINVAL an unknown mode or pass, also in $MICA_MODE or $MICA_PASSES_OFF, or
 *              slot_align is no power of two, or a precision is none, or there are more slots than
 *              results, or slots without names, or a name of slots is NULL; MICA_ENOENT an op of
 *              op_precisions, or a result of slots, is unknown; MICA_EUNSUPPORTED with no_fallback,
 *              the device lacks ops: the text names all, with their nodes, and with symbols or a
 *              precision it may come when it is compiled; those of compiling, which come at the
 *              first run of one that is lazy; MICA_ENOMEM, also where a run takes more than the
 *              device's memory limit and the device can tell before: the text has the bytes */
MICA_API mica_status mica_executable_open(const mica_program *program,
                                          const mica_executable_options *options,
                                          mica_executable **executable);

/** Closes *executable and sets it to NULL; nothing for NULL. Waits for its runs, and closes their
 *  tickets. */
MICA_API void mica_executable_close(mica_executable **executable);

/** A second executable of the same program, for another thread, with what was compiled of it and
 *  the values that are set now; these are shared until one is set anew. Waits for runs.
 *
 *  errors  MICA_ENOMEM */
MICA_API mica_status mica_executable_clone(mica_executable *executable, mica_executable **clone);

/** Compiles a program with symbols for lengths that will come, so that their first run does not.
 *
 *  lengths  [n] of all symbols, in any order. Borrowed.
 *  errors   those of mica_program_bind, and of compiling */
MICA_API mica_status mica_executable_precompile(mica_executable *executable,
                                                const mica_length *lengths, size_t n);

/** Runs only the first rows of what runs are given, where a symbol is the outermost length.
 *
 *  symbol  its name. Where a run has more rows than `rows`, the first ones are computed, and
 *          results are that much shorter; parameters that are fed may have either number. Where
 *          some op mixes rows, as a sum over them does, or is not known to keep them apart, all are
 *          computed, results are whole, and mica_executable_report names the op.
 *  rows    0 or more; -1: all, as at first.
 *  errors  MICA_ENOENT there is no such symbol; MICA_EINVAL rows is below -1; MICA_ENOMEM */
MICA_API mica_status mica_executable_set_extent(mica_executable *executable, const char *symbol,
                                                int64_t rows);

/* ---- values ---- */

/** A value for a parameter: data, or an array. An element of an array: it gets no new members. */
typedef struct mica_input {
    const char *name; /* of the parameter */
    const void *data; /* [bytes] in row-major order, copied; NULL: array */
    size_t bytes;     /* exactly those of the parameter's elements in dtype. Of a parameter with one
                         symbol they say its length; one with several is given as an array */
    mica_dtype dtype; /* of data: the parameter's, which 0 stands for, unless `convert` */
    bool convert;     /* other dtypes are converted, as by mica_astype; 0 is then MICA_BOOL */
    mica_array array; /* evaluated (or it is evaluated), of any scope of the device. Shared, where
                         its elements are in row-major order */
} mica_input;

/** Sets a parameter.
 *
 *  errors  MICA_ENOENT there is no such parameter (the text has the nearest name); MICA_ESHAPE
 *          bytes, or the array's shape, is not that of the parameter; MICA_EDTYPE; MICA_EINVAL
 *          neither data nor an array, or an array of another device; MICA_ENOMEM */
MICA_API mica_status mica_executable_set(mica_executable *executable, const mica_input *input);

/** Sets bytes [offset, offset + bytes) of a parameter's elements in row-major order. What was not
 *  set before is 0.
 *
 *  errors  MICA_ENOENT; MICA_ESHAPE they end behind the parameter's, or its length is a symbol and
 *          it is not set; MICA_ENOMEM */
MICA_API mica_status mica_executable_set_range(mica_executable *executable, const char *name,
                                               size_t offset, const void *data, size_t bytes);

/** Sets all elements of a parameter to a number. errors  MICA_ENOENT; MICA_EINVAL its dtype is one
 *  of integers, which do not have the number; MICA_ESHAPE as mica_executable_set_range;
 *  MICA_ENOMEM */
MICA_API mica_status mica_executable_fill(mica_executable *executable, const char *name,
                                          double value);

/** Unsets a parameter. errors  MICA_ENOENT */
MICA_API mica_status mica_executable_unset(mica_executable *executable, const char *name);

/** The value of a parameter that is set, as an array of `into`, which shares its memory: as long as
 *  it lives, nothing writes over it.
 *
 *  errors  MICA_ENOENT there is no such parameter; MICA_EINVAL it is not set; MICA_ENOMEM */
MICA_API mica_status mica_executable_get(mica_executable *executable, const char *name,
                                         mica_scope *into, mica_array *array);

/** After each run a result becomes the value of a parameter.
 *
 *  result  its name; NULL: the parameter is fed no more.
 *  errors  MICA_ENOENT there is no such result or parameter; MICA_EDTYPE, MICA_ESHAPE they
 *          differ */
MICA_API mica_status mica_executable_feed(mica_executable *executable, const char *result,
                                          const char *param);

/** Says without running what a run with these inputs would lack.
 *
 *  text    NULL, or receives "missing: a, b\nunused: c\n", freed with mica_free; "" where nothing
 *          is to be said. Unused are parameters that no result needs.
 *  errors  those of mica_executable_run that are found before it runs; MICA_EINVAL parameters are
 *          missing */
MICA_API mica_status mica_executable_check(mica_executable *executable, const mica_input *inputs,
                                           size_t n, char **text);

/* ---- running ---- */

/** Runs, behind all runs that are queued.
 *
 *  inputs   [n] values for this run, before those that are set. Borrowed.
 *  into     the scope that receives the results, on the program's device; NULL: nobody wants them.
 *  results  [results of the program] receives arrays of into, dense; invalid ones after an error.
 *           While one that feeds a parameter lives, the next run cannot write over it. NULL as into
 *           is.
 *  errors   those of mica_executable_set for an input; MICA_ESHAPE a symbol has two values, or an
 *           op does not fit the lengths; MICA_EINVAL an input is there twice, or
 *           parameters are neither given nor set (the text names all); those of
 *           mica_program_run */
MICA_API mica_status mica_executable_run(mica_executable *executable, const mica_input *inputs,
                                         size_t n, mica_scope *into, mica_array *results);

/** A run that was queued. */
typedef struct mica_ticket mica_ticket;

/** Queues a run and returns. Data are copied, and arrays shared, before it does. Runs keep their
 *  order, and see what earlier ones feed. A later call that reads or changes values waits for
 *  them.
 *
 *  ticket  receives the run, for mica_ticket_wait.
 *  errors  those of mica_executable_run that are found before it runs */
MICA_API mica_status mica_executable_run_async(mica_executable *executable,
                                               const mica_input *inputs, size_t n,
                                               mica_ticket **ticket);

/** Waits for that run, hands its results out, closes *ticket and sets it to NULL.
 *
 *  into, results  as of mica_executable_run.
 *  errors         those of the run; where parameters are fed, that of an earlier run that failed
 *                 and whose ticket was still there when this one was queued; MICA_ECANCELLED */
MICA_API mica_status mica_ticket_wait(mica_ticket **ticket, mica_scope *into, mica_array *results);

/** Whether the run is over, so that mica_ticket_wait does not wait. */
MICA_API bool mica_ticket_ready(const mica_ticket *ticket);

/** Cancels the run: at once where it has not begun, else where control flow begins another round.
 *  mica_ticket_wait is still to be called. From any thread. */
MICA_API void mica_ticket_cancel(mica_ticket *ticket);

/** Runs k times, in order, the inputs of the next run being taken while one runs.
 *
 *  inputs   [k * n] those of the first run, then those of the second ...
 *  results  [k * results of the program], or NULL, as into is.
 *  errors   the first of mica_executable_run_async and mica_ticket_wait; no run begins behind it,
 *           and results are invalid arrays */
MICA_API mica_status mica_executable_run_many(mica_executable *executable, const mica_input *inputs,
                                              size_t n, size_t k, mica_scope *into,
                                              mica_array *results);

/* ---- slots: for small programs that are run very often ---- */

/** Where a result lies. */
typedef struct mica_slot {
    const char *name;  /* of the result */
    mica_dtype dtype;  /* of its elements, which are in row-major order */
    mica_dtype unused; /* 0 */
    size_t offset;     /* bytes from the arena's beginning */
    size_t bytes;      /* that the elements take */
} mica_slot;

/** The slots of the results, of all or of mica_executable_options.slots, the same as long as the
 *  executable lives.
 *
 *  slots   receives [*n], borrowed from the executable.
 *  errors  MICA_EUNSUPPORTED the program has symbols (mica_program_bind sets them); MICA_ENOMEM */
MICA_API mica_status mica_executable_slots(mica_executable *executable, const mica_slot **slots,
                                           size_t *n);

/** The memory of the slots; NULL before mica_executable_slots, or without memory. Its address never
 *  changes. */
MICA_API const void *mica_executable_arena(const mica_executable *executable);

/** Runs, and copies the results that have slots into them. From the third run on it allocates
 *  nothing on the CPU, and looks no name up, but for MICA_MODE_EAGER, which records each op anew.
 *
 *  inputs  [parameters of the program] the elements of each in row-major order, in its dtype; NULL:
 *          what is set. Borrowed.
 *  n       parameters of the program.
 *  errors  those of mica_executable_run; MICA_EINVAL another n */
MICA_API mica_status mica_executable_run_slots(mica_executable *executable,
                                               const void *const *inputs, size_t n);

/* ---- asking ---- */

/** How many runs began, and how often the program was compiled. */
MICA_API uint64_t mica_executable_runs(const mica_executable *executable);
MICA_API uint64_t mica_executable_compiles(const mica_executable *executable);

/** What the executable is, as text: its mode and device; how often it ran and was compiled; symbols
 *  and extents; bytes of parameters, constants, the arena, and of a run where the device can tell;
 *  what each pass changed; of each op how many nodes there are, and whether the device has a kernel
 *  for it, runs its decomposition, or leaves it to the CPU; the subgraphs of control flow;
 *  parameters that are set, fed, or unused, with their bytes.
 *
 *  text    receives it, freed with mica_free; NULL after an error.
 *  errors  MICA_ENOMEM */
MICA_API mica_status mica_executable_report(mica_executable *executable, char **text);

MICA_END

#endif

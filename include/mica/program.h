/* Programs: graphs that are compiled once and run often.
 *
 * What is recorded in a scope from parameters to results becomes a program. It runs with other
 * arguments each time, from any thread, and records, traces and looks up nothing:
 *
 *     mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){1, 64}, 2);
 *     mica_array y = mica_matmul(s, x, w);             // w is a part of the program
 *     const mica_param params[] = {{.name = "x", .array = x}};
 *     mica_program *program = NULL;
 *     mica_status status = mica_program_build(s, params, 1, &y, 1, NULL, &program);
 *     ...
 *     status = mica_program_run(program, into, &input, &output);
 *
 * An argument that is donated may be written over by the result that takes its place: that is how
 * a cache grows without a copy.
 *
 * Threads: a program never changes; any number of threads may run it at once, each into a scope of
 * its own. */
#ifndef MICA_PROGRAM_H
#define MICA_PROGRAM_H

#include <mica/array.h>

MICA_BEGIN

/** A program. It keeps its device, and the arrays that are a part of it, until it is closed. */
typedef struct mica_program mica_program;

/** A parameter of a program. An element of an array: it gets no new members. */
typedef struct mica_param {
    const char *name; /* UTF-8, different among parameters; NULL: "0", "1", ... */
    mica_array array; /* what stands for it where the program is recorded */
    bool donate;      /* a run may write over the argument, which is gone afterwards */
} mica_param;

/** An array without a value, in the place of one that each run brings.
 *
 *  dtype, shape  of the argument; shape [ndim], NULL where ndim is 0. A parameter without axes is
 *                best given as a scalar (mica_f32, mica_i32).
 *  returns       the array; to evaluate it, or what is computed from it, is MICA_EINVAL. */
MICA_API mica_array mica_program_param(mica_scope *s, mica_dtype dtype, const int64_t *shape,
                                       int ndim);

/** A length that is not known yet, for shapes of parameters: a symbol, by its name.
 *
 *      int64_t n = mica_program_dim(s, "batch");
 *      mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){n, 784}, 2);
 *      mica_array y = mica_reshape(s, x, (int64_t[]){mica_dim_multiply(n, 16), 49}, 2);
 *
 *  The program runs with any length for it: an executable takes it from the arrays of each run
 *  (mica/executable.h), mica_program_bind sets it for good. Until then it is a dimension: a number
 *  that stands for the symbol, in shapes that mica_array_dim tells, too. Ops take it wherever they
 *  take a length or a place along an axis; as a double in mica_arange and mica_scalar. What is
 *  computed from it is computed with mica_dim_add and the functions after it: what C's operators
 *  make of it is MICA_EINVAL in the op that gets it, but for a remainder and a comparison, which C
 *  cannot be kept from. Where an op must compare lengths, a symbol counts as 0 or more; what
 *  that does not tell (n < 5, n - 5 < 0) counts as false. Two lengths are equal where they are the
 *  same expression; what was taken for granted is checked once symbols have values, and is
 *  MICA_ESHAPE then.
 *
 *  name     UTF-8, 1 to 63 bytes; the same name is the same symbol. 32 at most.
 *  returns  the dimension, which lives as long as s and programs built from it; 0 after an error,
 *           which s keeps. */
MICA_API int64_t mica_program_dim(mica_scope *s, const char *name);

/** Arithmetic on dimensions: numbers, or made from mica_program_dim. A quotient is rounded down,
 *  and is exact where the expression divides. An error shows in the op that gets the result. */
MICA_API int64_t mica_dim_add(int64_t a, int64_t b);
MICA_API int64_t mica_dim_subtract(int64_t a, int64_t b);
MICA_API int64_t mica_dim_multiply(int64_t a, int64_t b);
MICA_API int64_t mica_dim_divide(int64_t a, int64_t b); /* b > 0 */

/** Options of mica_program_build; zero means the default. */
typedef struct mica_program_options {
    size_t struct_bytes;             /* see mica/api.h */
    const char *const *result_names; /* [n_results] UTF-8, different from each other; NULL, the
                                        list or a name in it: "0", "1", ... Copied */
} mica_program_options;

/** Builds the program that computes results from params.
 *
 *  params   [n_params]: parameters, or evaluated arrays of s, in whose place arguments come. Other
 *           evaluated arrays that the results are computed from become a part of the program.
 *           Borrowed.
 *  results  [n_results] arrays of s. Nothing is evaluated.
 *  options  NULL for the defaults. Borrowed.
 *  program  receives it, owned by the caller; NULL after an error.
 *  errors   the scope's first error; MICA_EINVAL a parameter that is computed from others or is
 *           there twice, or one that results need and params lacks, a symbol that no parameter has,
 *           a parameter with an axis that is made of one (2 n, n + 1) and is no symbol itself, or a
 *           name that is empty, no UTF-8, or there twice; MICA_EUNSUPPORTED; MICA_ENOMEM
 *  grad     results by params that are floats, where their ops have one. */
MICA_API mica_status mica_program_build(mica_scope *s, const mica_param *params, size_t n_params,
                                        const mica_array *results, size_t n_results,
                                        const mica_program_options *options,
                                        mica_program **program);

/** Closes *program and sets it to NULL; nothing for NULL. Not while it runs. */
MICA_API void mica_program_close(mica_program **program);

/** Runs a program.
 *
 *  into     the scope that receives the results, on the program's device.
 *  args     [n_params] evaluated arrays (others are evaluated) of any scopes of the device, of the
 *           parameters' dtypes and shapes. Those whose elements are not in row-major order are
 *           copied. What still runs in their scopes ends first. Donated ones are gone afterwards,
 *           as by mica_move, also where the run fails; an argument that is refused takes none.
 *  results  [n_results] receives evaluated arrays of `into`; invalid ones after an error.
 *  errors   MICA_EINVAL, MICA_ESHAPE, MICA_EDTYPE an argument does not fit (the text names it);
 *           those of mica_eval. None is kept in `into`
 *
 *  A program with symbols is bound to the arguments' lengths each time: an executable keeps what is
 *  compiled. */
MICA_API mica_status mica_program_run(const mica_program *program, mica_scope *into,
                                      const mica_array *args, mica_array *results);

/** How many parameters and results there are. */
MICA_API size_t mica_program_param_count(const mica_program *program);
MICA_API size_t mica_program_result_count(const mica_program *program);

/** What a parameter or result is; the strings and shape live as long as the program. */
typedef struct mica_port {
    size_t struct_bytes;        /* see mica/api.h */
    const char *name;           /* as it was built, or loaded; "0", "1", ... */
    mica_dtype dtype;           /* of its elements */
    bool donate;                /* of a parameter: a run may write over the argument */
    int ndim;                   /* number of axes */
    const int64_t *shape;       /* [ndim]; -1: not known before symbols are */
    const char *const *symbols; /* [ndim] names of symbols, NULL where an axis is none; NULL, the
                                   list: of a program without */
} mica_port;

/** Fills *port. errors  MICA_EINVAL there is no such one */
MICA_API mica_status mica_program_get_param(const mica_program *program, size_t i, mica_port *port);
MICA_API mica_status mica_program_get_result(const mica_program *program, size_t i,
                                             mica_port *port);

/* ---- symbols ---- */

/** How many symbols the program has, and the name of the i-th; NULL: past the end. */
MICA_API size_t mica_program_symbol_count(const mica_program *program);
MICA_API const char *mica_program_symbol(const mica_program *program, size_t i);

/** A value for a symbol. An element of an array: it gets no new members. */
typedef struct mica_length {
    const char *name; /* of the symbol */
    int64_t length;   /* 0 or more */
} mica_length;

/** Makes the program for given values of all symbols: one without symbols.
 *
 *  lengths  [n] one for each symbol, in any order. Borrowed.
 *  bound    receives it, owned by the caller; NULL after an error. Constants are shared.
 *  errors   MICA_ENOENT there is no such symbol; MICA_EINVAL one is there twice or negative, or one
 *           is missing; MICA_ESHAPE an op does not fit the lengths (the text names it);
 *           MICA_ENOMEM */
MICA_API mica_status mica_program_bind(const mica_program *program, const mica_length *lengths,
                                       size_t n, mica_program **bound);

/** What a run of a program takes of the device's memory, in bytes as mica_device_active_bytes
 *  counts them; arguments and constants are there before. */
typedef struct mica_program_memory {
    size_t struct_bytes;     /* see mica/api.h */
    uint64_t peak_bytes;     /* what is added at most at once while it runs: results, temporaries,
                                what kernels need */
    uint64_t result_bytes;   /* of these, what stays afterwards: the results' */
    uint64_t argument_bytes; /* the elements of the arguments that it reads */
    uint64_t constant_bytes; /* those of the arrays that are a part of it, mapped ones too */
    uint64_t prepared_bytes; /* what a mica_executable makes of these once, such as weights in the
                                order in which kernels read them, if there is room: those with the
                                same constants share it. mica_program_run makes it in each run, in
                                peak_bytes */
} mica_program_memory;

/** Tells, before a run, what it will take. Donated arguments count as written over by the results
 *  that take their place. One that somebody else holds, too, and arguments that are not in
 *  row-major order take their bytes in addition.
 *
 *  With control flow it is what a run takes at most: the larger branch, whatever rounds a loop has.
 *
 *  errors  MICA_EUNSUPPORTED the device cannot tell, as "mlx"; another device runs some of the ops;
 *          or there are symbols (mica_program_bind sets them).
 *          MICA_EINVAL NULL; MICA_ENOMEM */
MICA_API mica_status mica_program_get_memory(const mica_program *program,
                                             mica_program_memory *memory);

/** The program as text: of each symbol "symbol batch", by which shapes and numbers name it; lines
 *  "param %0 x" and "param %1 cache donated"; then a line a node, "%7 = add f32[2,3] %5 %6"; then
 *  "result %7 y" for each result.
 *
 *  text    receives it, freed with mica_free; NULL after an error.
 *  errors  MICA_ENOMEM */
MICA_API mica_status mica_program_print(const mica_program *program, char **text);

/** How the texts of two programs differ: the lines between those at the beginning and at the end
 *  that are equal, "- " before those of a, then "+ " before those of b. Values of constants are no
 *  part of a text.
 *
 *  text    receives it, freed with mica_free; "" where the texts are equal; NULL after an error.
 *  errors  MICA_EINVAL NULL; MICA_ENOMEM */
MICA_API mica_status mica_program_diff(const mica_program *a, const mica_program *b, char **text);

/** Checks that every node comes behind its operands and has the dtype and shape that its op's rule
 *  gives. errors  MICA_EINTERNAL naming the node; MICA_ENOMEM */
MICA_API mica_status mica_program_verify(const mica_program *program);

/* ---- files ---- */

/** An array by a name. An element of an array: it gets no new members. */
typedef struct mica_named_array {
    const char *name; /* UTF-8, at most 4,096 bytes */
    mica_array array; /* borrowed */
} mica_named_array;

/** Options of programs' files; zero means the default. */
typedef struct mica_program_file_options {
    size_t struct_bytes;               /* see mica/api.h */
    const mica_named_array *constants; /* [n_constants] constants that are outside of the file, such
                                          as a model's weights; each name is there once. All others
                                          are inside */
    size_t n_constants;                /* number of constants */
} mica_program_file_options;

/** Saves a program: its graph, its parameters and the values that are a part of it.
 *
 *  path     written whole or not at all: another file, and one that is being read, stay as they are
 *           until the new one is complete.
 *  options  NULL for the defaults. constants: arrays by which the program was built. One whose
 *           memory and layout a constant of the program has is saved as the name alone; others of
 *           the list are left out. Borrowed.
 *  errors   MICA_EINVAL two constants have the same name, or a name is no UTF-8 or is too long;
 *           MICA_ENOENT, MICA_EIO, MICA_ENOMEM */
MICA_API mica_status mica_program_save(const mica_program *program, const char *path,
                                       const mica_program_file_options *options);

/** Loads a program that was saved. It computes the same bits as the one that was saved, on the same
 *  device. What ops compute may differ from version to version in the last bits.
 *
 *  Weights of bytes (i8 and u8 of 64 KiB and more) are not copied: the file stays mapped as long as
 *  something has them, and must not change, as mica/model.h says of weights; another file of its
 *  name, which is what mica_program_save makes, does not change it.
 *
 *  options  NULL for the defaults. constants: the arrays for the names that the file has, evaluated
 *           (others are evaluated), of any scopes of the device; others of the list are left out.
 *           Borrowed.
 *  program  receives it, owned by the caller; NULL after an error.
 *  errors   begin with the path. MICA_ENOENT there is no such file, or a constant's name is not
 *           among constants; MICA_EIO; MICA_EFORMAT it is no program's file, was altered, or a
 *           constant has another dtype or shape than the file says; MICA_EUNSUPPORTED another
 *           version, an op that is unknown, or one of mica/custom.h that is not registered (the
 *           text names it); MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_program_load(mica_device *device, const char *path,
                                       const mica_program_file_options *options,
                                       mica_program **program);

/** The bytes that mica_program_save writes.
 *
 *  data    receives them, freed with mica_free; NULL after an error.
 *  bytes   receives their number.
 *  errors  those of mica_program_save but for the file's */
MICA_API mica_status mica_program_encode(const mica_program *program,
                                         const mica_program_file_options *options, void **data,
                                         size_t *bytes);

/** Loads a program from the bytes of a file, as mica_program_load does.
 *
 *  data    [bytes], of any alignment. Borrowed: the constants are copied. */
MICA_API mica_status mica_program_decode(mica_device *device, const void *data, size_t bytes,
                                         const mica_program_file_options *options,
                                         mica_program **program);

/* ---- functions ---- */

/** A C function that is recorded once for given shapes of arguments, and then run as a program. */
typedef struct mica_function mica_function;

/** Options of mica_compile; zero means the default. */
typedef struct mica_compile_options {
    size_t struct_bytes; /* see mica/api.h */
    bool shapeless;      /* record with symbols for lengths of axes, which a call sets, without
                            calling the function */
    size_t max_programs; /* programs that are kept; the one that was used longest ago goes first. 0:
                            32 */
} mica_compile_options;

/** Makes a function whose programs are recorded by fn. Nothing is recorded yet.
 *
 *  With shapeless, fn is recorded with symbols for lengths (mica_program_dim): those above 1, equal
 *  ones the same symbol. It is called once for given dtypes, numbers of axes, donated arguments,
 *  and which lengths are 0, 1 or equal; other lengths are set in what was recorded. So fn should be
 *  called with different lengths first where they may differ. What it computes from lengths it
 *  computes with mica_dim_add and the others. A call is MICA_ESHAPE, naming the op, where what was
 *  recorded does not fit its lengths: an axis that fn took 5 elements of has 3.
 *
 *  fn        called by one thread at a time, whatever function it belongs to.
 *  user      given to fn. Borrowed until the function is closed.
 *  options   NULL for the defaults. Borrowed.
 *  function  receives it, owned by the caller; NULL after an error. It keeps its device.
 *  errors    MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_compile(mica_device *device, mica_compile_fn fn, void *user,
                                  const mica_compile_options *options, mica_function **function);

/** Runs a function, as mica_program_run does; from any thread. Programs run at once; recording
 *  waits for all recording of other threads. A function may call others while it is recorded: with
 *  its own scope as `into`, they become a part of it.
 *
 *  into     the scope that receives the results.
 *  args     [n_args] arrays of any scopes of the device; evaluated, but for those of a function
 *           that is being recorded. Arguments that came by mica_move are donated.
 *  results  [n_results] receives evaluated arrays of `into`; invalid ones after an error.
 *  errors   those of fn; MICA_EINVAL the function calls itself; those of mica_program_build and
 *           mica_program_run; MICA_ESHAPE other lengths do not fit a shapeless function */
MICA_API mica_status mica_function_call(mica_function *function, mica_scope *into,
                                        const mica_array *args, size_t n_args, mica_array *results,
                                        size_t n_results);

/** How often fn was called; 0 for NULL. */
MICA_API uint64_t mica_function_traces(const mica_function *function);

/** Closes *function and sets it to NULL; nothing for NULL. Not while it is called. */
MICA_API void mica_function_close(mica_function **function);

MICA_END

#endif

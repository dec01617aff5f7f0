/* Jinja, for chat templates.
 *
 * The output has the same bytes as that of transformers: blocks are trimmed (trim_blocks,
 * lstrip_blocks), `break` and `continue` work, templates cannot change a list or dict (sandbox),
 * and `tojson` does not escape HTML. Python's semantics hold as far as templates can see them:
 * truth, str() and repr(), floor division, indexing by characters. Not supported are inheritance,
 * imports, autoescape (of what `safe` and `escape` mark as HTML, only `+` knows), integers beyond
 * 64 bits, and filters and methods that lay out text (center, truncate, ljust ...) or group it.
 *
 * The steps of a rendering:
 *     jinja_lex.c    turns text to tokens
 *     jinja_parse.c  turns tokens to statements, jinja_expr.c to expressions (jinja_ast.h)
 *     jinja_exec.c   runs statements, jinja_eval.c evaluates expressions (jinja_run.h)
 * Values are in jinja_value.c, operators in jinja_op.c. Filters, tests, methods and functions are
 * tables in jinja_filter.c, jinja_seq.c, jinja_test.c, jinja_method.c and jinja_global.c.
 *
 * Templates are not trusted. A rendering may take 20 million steps (at most half a second), 32 MB
 * of memory and 4 MB of output. Each byte of its variables allows 4 steps more (up to 200 million
 * in all), 256 bytes more memory (up to 256 MB) and 16 bytes more output (up to 64 MB). Values nest
 * at most 500 deep. A rendering can be cancelled.
 * Threads: a parsed template never changes; any number of threads may render it. */
#ifndef TEXT_JINJA_JINJA_H
#define TEXT_JINJA_JINJA_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

#include <time.h>

typedef struct mc_jinja mc_jinja;

/* Parses a template. Error texts contain `name`, which is copied, and the line.
 *
 * errors  MICA_EFORMAT the source is not UTF-8, not Jinja, or nested too deep; MICA_ENOMEM */
mica_status mc_jinja_parse(mc_str source, const char *name, mc_jinja **out);
void mc_jinja_close(mc_jinja **t); /* does nothing for a pointer to NULL */

/* A variable of the template: text if text.ptr is set, else JSON, else None. */
typedef struct mc_jinja_variable {
    mc_str name;
    mc_json json;
    mc_str text; /* UTF-8 */
} mc_jinja_variable;

typedef struct mc_jinja_options { /* zero: the defaults. All is borrowed */
    const struct tm *now;         /* time of strftime_now; NULL: the function is not defined */
    const mica_cancel *cancel;    /* watched; may be NULL */
    uint64_t max_steps;           /* 0: the limit above */
} mc_jinja_options;

/* Adds the rendered text to out. A later variable of the same name replaces an earlier one.
 *
 *  options  NULL: the defaults.
 *  errors   MICA_EINVAL the template called raise_exception (with its text), or an operation does
 *           not take its operands; MICA_EFORMAT a limit of steps, depth, memory or output;
 *           MICA_ECANCELLED; MICA_ENOMEM. out is then unchanged */
mica_status mc_jinja_render(const mc_jinja *t, const mc_jinja_variable *variables, size_t n,
                            const mc_jinja_options *options, mc_buffer *out);

#endif

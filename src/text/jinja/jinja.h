/* Chat templates: a small Jinja.
 *
 * It renders what transformers renders, to the byte: blocks trimmed (trim_blocks, lstrip_blocks),
 * `break` and `continue`, a sandbox that changes no list or dict, `tojson` that escapes no HTML.
 * Python's semantics are followed where templates can see them: truth, str() and repr(), floor
 * division, indexing by characters. Left out: inheritance, imports, recursive loops, varargs and
 * kwargs of macros, autoescape and Markup (`escape` gives a plain string), integers beyond 64 bits,
 * and filters and methods that lay out text (center, truncate, ljust ...) or group it.
 *
 * The way of a template, a file a step:
 *     jinja_lex.c    text to tokens
 *     jinja_parse.c  tokens to statements, jinja_expr.c to expressions: jinja_ast.h
 *     jinja_exec.c   statements are run, jinja_eval.c evaluates expressions: jinja_run.h
 * on values (jinja_value.c) with operators (jinja_op.c) and tables of filters, tests, methods and
 * functions (jinja_filter.c, jinja_seq.c, jinja_test.c, jinja_method.c, jinja_global.c).
 *
 * Templates are not trusted. A rendering takes at most 20 million steps, half a second or less,
 * 32 MB of memory and 4 MB of output; and for each byte of its variables 4 steps (200 million with
 * the largest), 256 bytes of memory (256 MB) and 16 of output (64 MB). Values nest 500 deep. It can
 * be cancelled.
 * Threads: a parsed template never changes and may be rendered by any number of threads. */
#ifndef TEXT_JINJA_JINJA_H
#define TEXT_JINJA_JINJA_H

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

#include <time.h>

typedef struct mc_jinja mc_jinja;

/* Parses a template; `name` is copied and goes into error texts, as does the line.
 *
 * errors  MICA_EFORMAT it is not UTF-8, or not Jinja, or nested too deep; MICA_ENOMEM */
mica_status mc_jinja_parse(mc_str source, const char *name, mc_jinja **out);
void mc_jinja_close(mc_jinja **t); /* takes a pointer to NULL */

/* A variable of the template: JSON, or text where text.ptr is set; nothing at all is None. */
typedef struct mc_jinja_variable {
    mc_str name;
    mc_json json;
    mc_str text; /* UTF-8 */
} mc_jinja_variable;

typedef struct mc_jinja_options { /* zero: the defaults. All is borrowed */
    const struct tm *now;         /* what strftime_now tells; NULL: the function is not defined */
    const mica_cancel *cancel;    /* watched; may be NULL */
    uint64_t max_steps;           /* 0: as above */
} mc_jinja_options;

/* Adds the rendered text to out. A later variable of the same name replaces an earlier one.
 *
 *  options  NULL: the defaults.
 *  errors   MICA_EINVAL the template's own raise_exception, with its text, or an operation that
 *           its operands do not allow; MICA_EFORMAT a limit of steps, depth, memory or output;
 *           MICA_ECANCELLED; MICA_ENOMEM. out is then as it was */
mica_status mc_jinja_render(const mc_jinja *t, const mc_jinja_variable *variables, size_t n,
                            const mc_jinja_options *options, mc_buffer *out);

#endif

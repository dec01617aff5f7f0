/* Setting an error: a status and the thread's error text. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "base/format.h"

#include <mica/api.h>
#include <mica/status.h>

MICA_BEGIN

/* Sets the thread's error text and returns `status`, so that a function can end with it:
 * `return mc_fail(MICA_ESHAPE, "matmul: ...")`. What is made so is cut at 1,023 bytes; bytes that
 * are not UTF-8, and control characters other than newlines and tabs become '?'. Arguments may be
 * mica_last_error() itself. */
mica_status mc_fail(mica_status status, const char *fmt, ...) MC_PRINTF(2, 3);

/* The same of a text that is there, such as a list: it is cut at 16,383 bytes. */
mica_status mc_fail_text(mica_status status, const char *text);

/* As mc_fail, and appends ": " and the text of errno. Returns the status of errno: ENOENT gives
 * MICA_ENOENT, ENOMEM gives MICA_ENOMEM, all others MICA_EIO. */
mica_status mc_fail_errno(int error, const char *fmt, ...) MC_PRINTF(2, 3);

/* "out of memory: <what>". */
mica_status mc_fail_nomem(const char *what);

/* Puts "<context>: ", such as the path of a file, before the thread's error text. Returns
 * `status`. */
mica_status mc_fail_context(mica_status status, const char *fmt, ...) MC_PRINTF(2, 3);

MICA_END

/* Returns the status of the expression from the calling function if it is not MICA_OK. */
#define MC_TRY(expr)                                    \
    do {                                                \
        mica_status try_status_ = (expr);               \
        if (try_status_ != MICA_OK) return try_status_; \
    } while (0)

#endif

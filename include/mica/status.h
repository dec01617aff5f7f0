/* Status codes and the text of the last error.
 *
 * Functions that do I/O or run something return a mica_status. A few give something else, and the
 * scope keeps their status (mica_materialize, mica_move, mica_detach, mica_to_device,
 * mica_array_file_load, mica_array_release), or the iterator does (mica_next). When a status is not
 * MICA_OK, the calling thread's mica_last_error() says what failed, on what (file, tensor, op,
 * shapes), the limit, and what to change. No function aborts, exits or prints.
 *
 * Threads: the text belongs to the calling thread. */
#ifndef MICA_STATUS_H
#define MICA_STATUS_H

#include <mica/api.h>

#include <stddef.h>

MICA_BEGIN

/** The result of a call. */
typedef enum mica_status {
    MICA_OK = 0,
    MICA_EINVAL,       /* an argument is wrong: NULL, out of range, used after it was moved */
    MICA_ESHAPE,       /* shapes do not fit each other or the operation */
    MICA_EDTYPE,       /* the operation does not take this dtype */
    MICA_ENOMEM,       /* no memory, or the memory limit is reached */
    MICA_ENOENT,       /* a file, folder, tensor or key does not exist */
    MICA_EIO,          /* the system could not open, read, map or write */
    MICA_EFORMAT,      /* a file's content is malformed */
    MICA_EUNSUPPORTED, /* well formed, but of a kind that mica does not know */
    MICA_ECONTEXT,     /* the prompt does not fit the context */
    MICA_ECANCELLED,   /* stopped by the caller */
    MICA_EDEVICE,      /* a device failed or does not exist */
    MICA_EINTERNAL,    /* a broken invariant of mica's own: please report it */
    MICA_EBUSY         /* too much is under way already: try again later */
} mica_status;

/** The name of a status, such as "MICA_ESHAPE". Never NULL; static storage. */
MICA_API const char *mica_status_name(mica_status status);

/** The text of the error, right after a call of the calling thread has failed; "" before its first
 *  call. After a call that went well it tells nothing: it may be of an error that the call found
 *  and dealt with, such as an optional file that is not there.
 *
 *  returns UTF-8 without control characters other than newlines and tabs, never NULL; valid until
 *  the thread's next call into mica: copy what is to be kept. */
MICA_API const char *mica_last_error(void);

/** Copies mica_last_error(), for bindings that may go on in another thread, or whose language keeps
 *  no pointers.
 *
 *  buffer   receives the text, always NUL-terminated, and cut between two characters where it does
 *           not fit; may be NULL where bytes is 0.
 *  bytes    room in buffer, the NUL included.
 *  returns  the whole text's length, without the NUL: below bytes if nothing was cut. */
MICA_API size_t mica_error_text(char *buffer, size_t bytes);

/** Frees memory that a function of mica documents as "freed with mica_free". Does nothing for
 *  NULL. */
MICA_API void mica_free(void *ptr);

MICA_END

#endif

/* Lines about what the library does, for programs that want them: nothing is printed otherwise.
 *
 *     static void print(void *user, mica_log_level level, const char *text) {
 *         if (level <= MICA_LOG_INFO) fprintf(user, "mica: %s\n", text);
 *     }
 *     mica_log_hook_set(print, stderr);
 *
 * Threads: any. The hook is called in the thread that did the work, in several at once. */
#ifndef MICA_LOG_H
#define MICA_LOG_H

#include <mica/api.h>
#include <mica/status.h>

MICA_BEGIN

/** What a line is about; more detail, greater number. */
typedef enum mica_log_level {
    MICA_LOG_NOTE = 1, /* a user should know it: a remark from opening a model */
    MICA_LOG_INFO,     /* a model or a device was opened or closed */
    MICA_LOG_DEBUG     /* the text of an error as it is made, also of one that mica deals with */
} mica_log_level;

/** Receives a line: UTF-8 without a newline at its end, valid during the call. It must return, and
 *  may not be left by an exception or longjmp. What it calls of mica is not logged. */
typedef void (*mica_log_hook)(void *user, mica_log_level level, const char *text);

/** Sets the hook of the process. The one before is not called any more once this has returned.
 *
 *  hook     NULL: none.
 *  user     given to hook. Kept until another hook is set.
 *  errors   MICA_EINVAL it was called by a hook */
MICA_API mica_status mica_log_hook_set(mica_log_hook hook, void *user);

MICA_END

#endif

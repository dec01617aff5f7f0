/* Python with bridge.py: starting it, and what its replies and its end say. Used by the engine
 * mlx_lm.
 *
 * Threads: the functions of one process by one thread at a time. */
#ifndef ENGINE_MLX_LM_PYTHON_H
#define ENGINE_MLX_LM_PYTHON_H

#include "base/json.h"
#include "base/process.h"
#include "base/status.h"

#include <mica/engine.h>

enum { MC_MLX_LM_POLL_US = 20000 }; /* how long a poll, and so a cancelled call, may wait */

/* The options, none of them NULL or 0. */
typedef struct mc_mlx_lm_settings {
    const char *python, *paths; /* paths: "" for none */
    double start_seconds, load_seconds, silence_seconds;
} mc_mlx_lm_settings;

/* Fills in what `options` (NULL: none) and the environment say, and the defaults.
 * errors  MICA_EINVAL a time is not a number above 0 */
mica_status mc_mlx_lm_settle(const mica_mlx_lm_options *options, mc_mlx_lm_settings *settings);

/* What the system calls Python 3, and what is between the folders of PYTHONPATH there. */
extern const char mc_mlx_lm_python_name[];
extern const char mc_mlx_lm_separator;

/* bridge.py, from when mica is built. */
extern const unsigned char mc_mlx_lm_bridge[];
extern const size_t mc_mlx_lm_bridge_bytes;

/* Starts Python with the bridge, which is an argument of it and no file: nothing is left anywhere,
 * however this process ends. argument: the bridge's own; NULL: none.
 * errors  MICA_ENOENT there is no Python (the text says how to get it); MICA_EIO, MICA_ENOMEM */
mica_status mc_mlx_lm_start(const mc_mlx_lm_settings *settings, const char *argument,
                            mc_process **process);

/* Asks Python whether mlx-lm is there; cancel: watched, may be NULL.
 * errors  MICA_ENOENT there is no Python, or no mlx-lm (the text says how to get it); MICA_EIO,
 *         MICA_EFORMAT Python does not answer as it should; MICA_ECANCELLED */
mica_status mc_mlx_lm_check(const mc_mlx_lm_settings *settings, const mica_cancel *cancel);

/* Waits a moment for a reply; *reply NULL: none has come. A deadline that is over without one is an
 * error, and so is all else that is no reply.
 * errors  MICA_EFORMAT rubbish, half a line, a line of more than a megabyte; MICA_EIO the process
 *         has ended, or was silent; MICA_ENOMEM. The text has the end of what the process wrote to
 *         its standard error */
mica_status mc_mlx_lm_poll(mc_process *process, uint64_t deadline, mc_json_doc **reply);

/* Waits for a reply that says {ok: true}; cancel: watched, may be NULL.
 * errors  those of mc_mlx_lm_poll; what a reply {error, kind} says; MICA_ECANCELLED */
mica_status mc_mlx_lm_read_ok(mc_process *process, uint64_t deadline, const mica_cancel *cancel,
                              mc_json_doc **reply);

/* The error that a reply tells; MICA_OK: none. */
mica_status mc_mlx_lm_refusal(mc_json reply);

/* Copies the first bytes of a text, for people: what is no UTF-8 and no character becomes '?'. */
void mc_mlx_lm_show(mc_str text, char *out, size_t room);

/* Sets the error "Python <what>", with the end of what it wrote to its standard error. */
mica_status mc_mlx_lm_blame(mc_process *process, mica_status status, const char *what);

#endif

#include "engine/mlx_lm_python.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/cancel.h"
#include "base/system.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LINE = 1 << 20,
    QUIT_US = 2000000,
    MAX_SAID = 600, /* bytes of standard error that an error's text shows */
    MAX_SHOWN = 80  /* bytes of a line that is not a reply */
};

/* ---- settings ---- */

static mica_status settle_seconds(double given, const char *variable, double otherwise,
                                  double *seconds) {
    const char *text = getenv(variable);
    mc_json_doc *doc = NULL;
    *seconds = given;
    if (given == 0.0 && text && *text) { /* as JSON: whatever the locale's decimal point is */
        mica_status status = mc_json_parse(text, strlen(text), variable, &doc);
        if (status == MICA_ENOMEM) return status;
        if (status != MICA_OK || !mc_json_get_float(mc_json_root(doc), seconds)) *seconds = -1.0;
        mc_json_close(&doc);
    } else if (given == 0.0) {
        *seconds = otherwise;
    }
    if (*seconds > 0.0 && *seconds < 1e9) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: want a number of seconds above 0", variable);
}

static const char *settle_text(const char *given, const char *variable, const char *otherwise) {
    if (!given || !*given) given = getenv(variable);
    return given && *given ? given : otherwise;
}

mica_status mc_mlx_lm_settle(const mica_mlx_lm_options *options, mc_mlx_lm_settings *settings) {
    static const mica_mlx_lm_options none = {0};
    const mica_mlx_lm_options *o = options ? options : &none;
    /* $MICA_MLX_LM_PYTHON: the Python of the engine mlx_lm (default: python3; on Windows python) */
    settings->python = settle_text(o->python, "MICA_MLX_LM_PYTHON", mc_mlx_lm_python_name);
    /* $MICA_MLX_LM_PATH: folders where that Python finds mlx-lm, separated by colons, on Windows by
     * semicolons */
    settings->paths = settle_text(o->paths, "MICA_MLX_LM_PATH", "");
    /* $MICA_MLX_LM_START_SECONDS: for Python to start (default: 30) */
    MC_TRY(settle_seconds(o->start_seconds, "MICA_MLX_LM_START_SECONDS", 30,
                          &settings->start_seconds));
    /* $MICA_MLX_LM_LOAD_SECONDS: for a model to load (default: 600) */
    MC_TRY(
        settle_seconds(o->load_seconds, "MICA_MLX_LM_LOAD_SECONDS", 600, &settings->load_seconds));
    /* $MICA_MLX_LM_SILENCE_SECONDS: without a token, after which an answer is given up (default:
     * 300) */
    return settle_seconds(o->silence_seconds, "MICA_MLX_LM_SILENCE_SECONDS", 300,
                          &settings->silence_seconds);
}

/* ---- starting ---- */

/* PYTHONPATH with the settings' folders first, in new memory. */
static char *python_path(const mc_mlx_lm_settings *settings) {
    /* $PYTHONPATH: Python's own; the folders of $MICA_MLX_LM_PATH come before it */
    const char *old = getenv("PYTHONPATH");
    mc_buffer out = {0};
    bool made = mc_buffer_printf(&out, "PYTHONPATH=%s", settings->paths);
    if (made && *settings->paths && old && *old)
        made = mc_buffer_add_byte(&out, mc_mlx_lm_separator);
    if (made && mc_buffer_add_text(&out, old ? old : "")) return mc_buffer_take(&out);
    mc_buffer_deinit(&out);
    return NULL;
}

mica_status mc_mlx_lm_start(const mc_mlx_lm_settings *settings, const char *argument,
                            mc_process **process) {
    char *path = python_path(settings);
    char *script = mc_strndup((const char *)mc_mlx_lm_bridge, mc_mlx_lm_bridge_bytes);
    const char *const argv[] = {settings->python, "-u", "-c", script, argument, NULL};
    const char *const env[] = {path, "PYTHONIOENCODING=utf-8", "TOKENIZERS_PARALLELISM=false",
                               "HF_HUB_OFFLINE=1", NULL};
    const mc_process_options options = {.argv = argv, .env = env, .max_line_bytes = MAX_LINE};
    *process = NULL;
    mica_status status =
        path && script ? mc_process_start(&options, process) : mc_fail_nomem("a bridge to Python");
    mc_free(path);
    mc_free(script);
    if (status == MICA_ENOENT)
        return mc_fail(status,
                       "%s: install Python 3 and mlx-lm, or name another Python "
                       "(MICA_MLX_LM_PYTHON)",
                       mica_last_error());
    return status;
}

/* ---- errors ---- */

void mc_mlx_lm_show(mc_str text, char *out, size_t room) {
    size_t n = 0;
    while (text.len > 0 && n + 4 < room) {
        uint32_t c;
        size_t bytes = mc_utf8_decode(text.ptr, text.len, &c);
        bool shown = bytes && (c == '\n' || c == '\t' || (c >= 0x20 && (c < 0x7f || c > 0x9f)));
        if (shown)
            memcpy(out + n, text.ptr, bytes);
        else
            out[n] = '?';
        n += shown ? bytes : 1;
        bytes = bytes ? bytes : 1;
        text.ptr += bytes;
        text.len -= bytes;
    }
    out[n] = 0;
}

mica_status mc_mlx_lm_blame(mc_process *process, mica_status status, const char *what) {
    char shown[MAX_SAID + 8];
    const char *said = mc_process_errors(process);
    size_t len = strlen(said);
    while (len > 0 && said[len - 1] == '\n')
        len--;
    size_t from = len > MAX_SAID ? len - MAX_SAID : 0;
    mc_mlx_lm_show((mc_str){said + from, len - from}, shown, sizeof shown);
    return mc_fail(status, "Python %s%s%s", what, *shown ? "; it said: " : "", shown);
}

static mica_status blame_end(mc_process *process, mc_str rest) {
    char what[128];
    const char *end = mc_process_describe_end(process);
    snprintf(what, sizeof what, rest.len ? "%s in the middle of a line" : "%s", end);
    return mc_mlx_lm_blame(process, rest.len ? MICA_EFORMAT : MICA_EIO, what);
}

static mica_status blame_line(mc_process *process, mc_str line) {
    char what[MAX_SHOWN + 48], shown[MAX_SHOWN + 8];
    mc_mlx_lm_show((mc_str){line.ptr, line.len < MAX_SHOWN ? line.len : MAX_SHOWN}, shown,
                   sizeof shown);
    snprintf(what, sizeof what, "printed what is not a reply: %s", shown);
    return mc_mlx_lm_blame(process, MICA_EFORMAT, what);
}

static mica_status status_of(mc_str kind) {
    static const struct {
        const char *kind;
        mica_status status;
    } kinds[] = {{"missing", MICA_ENOENT},
                 {"invalid", MICA_EINVAL},
                 {"unsupported", MICA_EUNSUPPORTED},
                 {"memory", MICA_ENOMEM}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mc_str_is(kind, kinds[i].kind)) return kinds[i].status;
    return MICA_EIO;
}

mica_status mc_mlx_lm_refusal(mc_json reply) {
    mc_str text, kind = {"", 0};
    char shown[MAX_SAID + 8];
    if (!mc_json_get_str(mc_json_find(reply, "error"), &text)) return MICA_OK;
    (void)mc_json_get_str(mc_json_find(reply, "kind"), &kind);
    mc_mlx_lm_show(text, shown, sizeof shown);
    return mc_fail(status_of(kind), "%s", shown);
}

/* ---- replies ---- */

mica_status mc_mlx_lm_poll(mc_process *process, uint64_t deadline, mc_json_doc **reply) {
    mc_str line;
    mc_process_got got;
    *reply = NULL;
    uint64_t now = mc_now_us();
    uint64_t until = now + MC_MLX_LM_POLL_US;
    mica_status status = mc_process_read(process, until < deadline ? until : deadline, &line, &got);
    if (status == MICA_EFORMAT)
        return mc_mlx_lm_blame(process, status, "printed a line of more than a megabyte");
    MC_TRY(status);
    if (got == MC_PROCESS_END) return blame_end(process, line);
    if (got == MC_PROCESS_LATER && now < deadline) return MICA_OK;
    if (got == MC_PROCESS_LATER)
        return mc_mlx_lm_blame(process, MICA_EIO, "has been silent for longer than it may");
    status = mc_json_parse(line.ptr, line.len, "a reply", reply);
    if (status == MICA_OK && mc_json_get_type(mc_json_root(*reply)) == MC_JSON_OBJECT)
        return MICA_OK;
    if (status == MICA_OK) mc_json_close(reply);
    return status == MICA_ENOMEM ? status : blame_line(process, line);
}

mica_status mc_mlx_lm_read_ok(mc_process *process, uint64_t deadline, const mica_cancel *cancel,
                              mc_json_doc **reply) {
    bool ok = false;
    *reply = NULL;
    while (!*reply) {
        MC_TRY(mc_cancel_check(cancel));
        MC_TRY(mc_mlx_lm_poll(process, deadline, reply));
    }
    mica_status status = mc_mlx_lm_refusal(mc_json_root(*reply));
    if (status == MICA_OK && !mc_json_get_bool(mc_json_find(mc_json_root(*reply), "ok"), &ok))
        status = mc_mlx_lm_blame(process, MICA_EFORMAT, "replied neither ok nor an error");
    if (status != MICA_OK) mc_json_close(reply);
    return status;
}

mica_status mc_mlx_lm_check(const mc_mlx_lm_settings *settings, const mica_cancel *cancel) {
    mc_process *process;
    mc_json_doc *reply = NULL;
    MC_TRY(mc_mlx_lm_start(settings, "--check", &process));
    uint64_t deadline = mc_now_us() + (uint64_t)(settings->start_seconds * 1e6);
    mica_status status = mc_mlx_lm_read_ok(process, deadline, cancel, &reply);
    mc_json_close(&reply);
    mc_process_close(&process, status == MICA_OK ? QUIT_US : 0);
    return status;
}

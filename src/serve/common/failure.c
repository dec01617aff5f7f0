#include "serve/common/failure.h"

#include "base/system.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *type_of(int status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    }
    return status < 500 ? "invalid_request_error" : "server_error";
}

bool mc_failure_set(mc_failure *failure, int status, const char *code, const char *param,
                    const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    *failure = (mc_failure){.status = status, .type = type_of(status), .code = code};
    vsnprintf(failure->message, sizeof failure->message, fmt, args);
    va_end(args);
    snprintf(failure->param, sizeof failure->param, "%s", param ? param : "");
    if (status == 503 || status == 429) failure->retry_seconds = 1;
    return false;
}

bool mc_failure_role(mc_failure *failure, const char *param, const char *place, mc_str role,
                     const char *wanted) {
    return mc_failure_set(failure, 400, "invalid_value", param,
                          "%s.role: \"%.*s\" is no role: want %s", place,
                          role.len < 40 ? (int)role.len : 40, role.ptr, wanted);
}

/* An error's text without the folder of the file that it begins with: where models lie is nothing
 * that clients need to know. Places in a schema, "/properties/a", have no ending and stay. */
static const char *without_folder(const char *text) {
    size_t root = mc_root_bytes(text), len = root + strcspn(text + root, ":,\n"), at = len;
    while (at > 0 && !mc_is_slash(text[at - 1]))
        at--;
    bool file = root > 0 && memchr(text + at, '.', len - at);
    return file ? text + at : text;
}

bool mc_failure_of(mc_failure *failure, mica_status status, const char *param) {
    const char *text = without_folder(mica_last_error());
    switch (status) {
    case MICA_EINVAL:
    case MICA_EFORMAT:
    case MICA_EUNSUPPORTED:
    case MICA_ESHAPE:
    case MICA_EDTYPE:
        return mc_failure_set(failure, 400, NULL, param, "%s", text);
    case MICA_ECONTEXT:
        return mc_failure_set(failure, 400, "context_length_exceeded", param, "%s", text);
    case MICA_ENOENT:
        return mc_failure_set(failure, 404, NULL, param, "%s", text);
    case MICA_ENOMEM:
        return mc_failure_set(failure, 503, "out_of_memory", param, "%s", text);
    case MICA_EDEVICE:
        return mc_failure_set(failure, 503, "device", param, "%s", text);
    case MICA_ECANCELLED:
        return mc_failure_set(failure, 499, "cancelled", param, "the request was cancelled");
    default:
        return mc_failure_set(failure, 500, NULL, param, "%s", text);
    }
}

static void put_openai(const mc_failure *failure, mc_put *put) {
    mc_put_open(put, NULL, '{');
    mc_put_open(put, "error", '{');
    mc_put_text(put, "message", failure->message);
    mc_put_text(put, "type", failure->type);
    mc_put_text(put, "param", failure->param[0] ? failure->param : NULL);
    mc_put_text(put, "code", failure->code);
    mc_put_close(put, '}');
    mc_put_close(put, '}');
}

static void put_anthropic(const mc_failure *failure, const char *request_id, mc_put *put) {
    const char *type = failure->type;
    if (failure->status == 413) type = "request_too_large";
    if (failure->status == 503) type = "overloaded_error";
    if (failure->status == 504) type = "timeout_error";
    if (failure->status >= 500 && failure->status != 503 && failure->status != 504)
        type = "api_error";
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "type", "error");
    mc_put_open(put, "error", '{');
    mc_put_text(put, "type", type);
    mc_put_text(put, "message", failure->message);
    mc_put_close(put, '}');
    mc_put_text(put, "request_id", request_id);
    mc_put_close(put, '}');
}

void mc_failure_put(const mc_failure *failure, mc_api api, const char *request_id, mc_put *put) {
    switch (api) {
    case MC_API_OPENAI:
        put_openai(failure, put);
        break;
    case MC_API_ANTHROPIC:
        put_anthropic(failure, request_id, put);
        break;
    case MC_API_OLLAMA:
        mc_put_open(put, NULL, '{');
        mc_put_text(put, "error", failure->message);
        mc_put_close(put, '}');
        break;
    }
}

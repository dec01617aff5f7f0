#include "serve/ollama.h"

#include "serve/state.h"

mc_served *mc_ollama_find(mc_exchange *http, mc_str name) {
    const mc_str tag = MC_STR(":latest");
    mc_failure first;
    mc_served *served = mc_models_find(&http->server->models, name, &http->failure);
    if (served || name.len <= tag.len) return served;
    mc_str end = {name.ptr + name.len - tag.len, tag.len};
    if (!mc_str_eq(end, tag)) return NULL;
    first = http->failure;
    served = mc_models_find(&http->server->models, (mc_str){name.ptr, name.len - tag.len},
                            &http->failure);
    http->failure = served ? (mc_failure){0} : first;
    return served;
}

bool mc_ollama_check_keep(mc_json keep, mc_failure *failure) {
    mc_str text;
    double number;
    bool zero = false;
    if (mc_json_get_float(keep, &number)) zero = number == 0;
    if (mc_json_get_str(keep, &text)) {
        zero = text.len > 0;
        for (size_t i = 0; i < text.len; i++)
            if (text.ptr[i] >= '1' && text.ptr[i] <= '9') zero = false;
    }
    return !zero || mc_failure_set(failure, 400, "unsupported_value", "keep_alive",
                                   "keep_alive: 0 is not supported: models are kept");
}

bool mc_ollama_reply(mc_exchange *http, const mc_put *put) {
    if (put->failed) return mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
    mc_exchange_reply(http, 200, NULL);
    return true;
}

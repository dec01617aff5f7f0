#include "serve/ollama/ollama.h"

#include "serve/jobs/state.h"

mc_str mc_ollama_plain_name(mc_str name) {
    const mc_str tag = MC_STR(":latest");
    if (name.len > tag.len && mc_str_ends(name, tag)) name.len -= tag.len;
    return name;
}

mc_served *mc_ollama_take(mc_exchange *http, mc_str name) {
    const mc_str tag = MC_STR(":latest");
    mc_failure first;
    mc_served *served = mc_models_take(&http->server->models, http, name);
    if (served || http->awaited || name.len <= tag.len) return served;
    mc_str end = {name.ptr + name.len - tag.len, tag.len};
    if (!mc_str_eq(end, tag)) return NULL;
    first = http->failure;
    served = mc_models_take(&http->server->models, http, (mc_str){name.ptr, name.len - tag.len});
    http->failure = served || http->awaited ? (mc_failure){0} : first;
    return served;
}

/* The time of a unit that a text begins with, and the unit's length; 0: there is none. */
static double unit_seconds(mc_str text, size_t *len) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"\xce\xbcs", 1e-6},
                 {"ms", 1e-3}, {"s", 1},     {"m", 60},           {"h", 3600}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *len = strlen(units[i].name);
        if (mc_str_starts(text, mc_str_of(units[i].name))) return units[i].seconds;
    }
    return 0;
}

/* The number that a text begins with, digits with at most one point; *len 0: there is none. */
static double read_number(mc_str text, size_t *len) {
    double value = 0, place = 1;
    size_t digits = 0, i = 0;
    bool point = false;
    for (; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9') break;
        value = value * 10 + (c - '0');
        if (point) place *= 10;
        digits++;
    }
    *len = digits ? i : 0;
    return value / place;
}

/* A duration as Go writes it: "1h30m", "-1s", "0". false: it is none. */
static bool read_duration(mc_str text, double *seconds) {
    size_t at = text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+'), len;
    double sign = at && text.ptr[0] == '-' ? -1 : 1;
    *seconds = 0;
    if (at + 1 == text.len && text.ptr[at] == '0') return true;
    if (at == text.len) return false;
    while (at < text.len) {
        double value = read_number((mc_str){text.ptr + at, text.len - at}, &len);
        if (!len) return false;
        at += len;
        double scale = unit_seconds((mc_str){text.ptr + at, text.len - at}, &len);
        if (scale == 0) return false;
        at += len;
        *seconds += sign * value * scale;
    }
    return true;
}

bool mc_ollama_read_keep(mc_json keep, int64_t *keep_us, bool *given, mc_failure *failure) {
    double seconds = 0;
    mc_str text;
    *given = mc_json_exists(keep);
    *keep_us = MC_KEEP_ALWAYS;
    if (!*given) return true;
    if (mc_json_get_str(keep, &text) ? !read_duration(text, &seconds)
                                     : !mc_json_get_float(keep, &seconds))
        return mc_failure_set(failure, 400, "invalid_value", "keep_alive",
                              "keep_alive: want seconds, or a duration such as \"5m\"");
    if (seconds >= 0 && seconds < 1e9) *keep_us = (int64_t)(seconds * 1e6);
    return true;
}

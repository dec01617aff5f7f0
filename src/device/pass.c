#include "device/pass.h"

#include <string.h>

static const char *const names_of[MC_PASS_COUNT] = {
#define PASS(ENUM, name, what) [MC_PASS_##ENUM] = name,
#include "device/pass_list.h"
};

const char *mc_pass_name(mc_pass pass) {
    return names_of[pass];
}

static bool is_name(const char *text, size_t n, const char *name) {
    return strlen(name) == n && memcmp(text, name, n) == 0;
}

/* The bits of one name; 0: there is no such pass. */
static uint32_t bits_of(const char *text, size_t n) {
    if (is_name(text, n, "all")) return (UINT32_C(1) << MC_PASS_COUNT) - 1;
    for (int i = 0; i < MC_PASS_COUNT; i++)
        if (is_name(text, n, names_of[i])) return UINT32_C(1) << i;
    return 0;
}

mica_status mc_passes_parse(const char *what, const char *names, uint32_t *off) {
    *off = 0;
    for (const char *at = names; at && *at;) {
        size_t n = strcspn(at, ",");
        uint32_t bits = bits_of(at, n);
        if (!bits)
            return mc_fail(MICA_EINVAL, "%s: there is no pass %.*s: they are"
#define PASS(ENUM, name, what) " " name
#include "device/pass_list.h"
                           ,
                           what, n > 64 ? 64 : (int)n, at);
        *off |= bits;
        at += n + (at[n] == ',');
    }
    return MICA_OK;
}

/* Reads any bytes as config.json: the result is an error, or an object whose keys can all be read
 * as any type. */
#include "io/config.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LEVELS 4 /* depth of the walk: of repeated keys, the last one is read each time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each reader succeeds or sets an error text. */
static void check(mica_status status) {
    if (status != MICA_OK && !*mica_last_error()) abort();
}

static void read_key(const mc_config_scope *scope, const char *key, mc_config_need need) {
    int64_t whole, wholes[4];
    double number;
    bool flag;
    mc_str text, texts[4];
    size_t count;
    check(mc_config_int(scope, key, need, -1, 1000000, &whole));
    check(mc_config_float(scope, key, need, 0, 1e6, &number));
    check(mc_config_bool(scope, key, need, &flag));
    check(mc_config_str(scope, key, need, &text));
    check(mc_config_ints(scope, key, need, 0, 1000, wholes, 4, &count));
    check(mc_config_strs(scope, key, need, texts, 4, &count));
}

static void read_scope(mc_config_scope scope, int level) {
    read_key(&scope, "hidden_size", MC_REQUIRED);
    read_key(&scope, "eos_token_id", MC_OPTIONAL);
    for (mc_json_iter it = mc_json_begin(scope.object); mc_json_next(&it);) {
        char key[64];
        size_t len = it.key.len < sizeof key - 1 ? it.key.len : sizeof key - 1;
        memcpy(key, it.key.ptr, len);
        key[len] = 0;
        read_key(&scope, key, MC_OPTIONAL);
        if (level == MAX_LEVELS) continue;
        mc_config_scope inner;
        if (mc_config_object(&scope, key, MC_REQUIRED, &inner) == MICA_OK) {
            read_scope(inner, level + 1);
        }
    }
}

static void parse(const uint8_t *data, size_t size) {
    mc_config *config;
    if (mc_config_parse((const char *)data, size, "fuzz", &config) != MICA_OK) {
        if (config || !*mica_last_error()) abort();
        return;
    }
    read_scope(mc_config_root(config), 0);
    mc_config_close(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 8);
    parse(data, size);
    mc_alloc_fail_at(0);
    return 0;
}

/* mica/version.h: the version, and what the build has. */
#include <mica/version.h>

#include <string.h>

typedef struct feature {
    const char *name;
    bool built;
} feature;

static const feature features[] = {
#define FEATURE(name) {#name, MICA_FEATURE_##name},
#include "base/feature_list.h"
#undef FEATURE
};

const char *mica_version(void) {
    return MICA_VERSION;
}

int mica_version_number(void) {
    return MICA_VERSION_NUMBER;
}

const char *mica_feature_name(size_t i) {
    return i < sizeof features / sizeof *features ? features[i].name : NULL;
}

bool mica_has(const char *name) {
    for (size_t i = 0; name && i < sizeof features / sizeof *features; i++)
        if (strcmp(features[i].name, name) == 0) return features[i].built;
    return false;
}

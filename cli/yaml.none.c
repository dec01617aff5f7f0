/* A build without libyaml. */
#include "yaml.h"

bool cli_yaml_to_json(const char *text, size_t len, cli_text *json, char *why, size_t why_bytes) {
    (void)text, (void)len, (void)json;
    snprintf(why, why_bytes, "this build of mica has no libyaml: write the config as JSON");
    return false;
}

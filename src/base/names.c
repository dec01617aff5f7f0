#include "base/names.h"

enum { KEPT = 8 };

mica_status mc_names_add(mc_names *names, const char *name) {
    names->count++;
    bool added = true;
    if (names->count <= KEPT)
        added = mc_buffer_printf(&names->text, names->count > 1 ? ", %s" : "%s", name);
    else if (names->count == KEPT + 1)
        added = mc_buffer_add_text(&names->text, " ...");
    return added ? MICA_OK : mc_fail_nomem("a list of names");
}

const char *mc_names_text(mc_names *names) {
    return mc_buffer_cstr(&names->text);
}

void mc_names_deinit(mc_names *names) {
    mc_buffer_deinit(&names->text);
    names->count = 0;
}

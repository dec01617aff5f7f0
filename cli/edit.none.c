/* Without libedit: terminals are read as the system hands out their lines. */
#include "edit.h"

#include <stddef.h>

cli_edit *cli_edit_open(const char *file) {
    (void)file;
    return NULL;
}

const char *cli_edit_read(cli_edit *edit, bool more) {
    (void)edit, (void)more;
    return NULL;
}

void cli_edit_close(cli_edit **edit) {
    *edit = NULL;
}

/* Without libedit: terminals are read as the system hands out their lines. */
#include "edit.h"

#include <stddef.h>

cli_edit *cli_edit_open(const char *file, cli_completer complete) {
    (void)file, (void)complete;
    return NULL;
}

cli_typed cli_edit_read(cli_edit *edit, bool more, const char **line) {
    (void)edit, (void)more, (void)line;
    return CLI_TYPED_END;
}

void cli_edit_close(cli_edit **edit) {
    *edit = NULL;
}

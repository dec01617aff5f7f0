/* Without libedit: the terminal's own line editing is used. */
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

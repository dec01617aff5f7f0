#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#include "console.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

char **cli_console_init(char **argv) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
    return argv;
}

bool cli_console_has_escapes(void) {
    /* $TERM: dumb: no colours, no progress bars */
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0;
}

int cli_console_columns(FILE *stream) {
    struct winsize size;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

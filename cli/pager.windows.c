/* Windows' more knows no UTF-8: what is long is read by scrolling. */
#include "pager.h"

#include "cli.h"
#include "report.h"

void cli_pager_start(void) {}

int cli_pager_end(void) {
    return cli_flush() ? CLI_DONE : CLI_FAILED;
}

/* mica version: prints the version and the build's options. */
#include "verb.h"

#include "print.h"

#include <mica/mica.h>

static int run(const void *values, char **args, int count) {
    (void)values, (void)args, (void)count;
    cli_print(stdout, "mica %s\n", mica_version());
    printf("devices       ");
    for (size_t i = 0; i < mica_device_count(); i++)
        cli_print(stdout, "%s%s", i ? ", " : "", mica_device_name(i));
    cli_print(stdout, "\nline editing  %s\n", MICA_HAVE_LIBEDIT ? "libedit" : "none");
    cli_print(stdout, "compiler      %s\n", __VERSION__);
    cli_print(stdout, "models        %s\n", MICA_INSTALLED_MODELS);
    return CLI_DONE;
}

const cli_verb cli_verb_version = {
    .synopsis = "",
    .details = "Prints the version, the devices and the libraries of this build.\n",
    .run = run,
};

/* mica version: prints the version and the build's options. */
#include "licences.h"
#include "print.h"
#include "verb.h"

typedef struct version_values {
    bool licences;
} version_values;

static int run(const void *verb_values, char **args, int count) {
    const version_values *values = verb_values;
    (void)args, (void)count;
    if (values->licences) {
        cli_print_result((const char *)cli_licences, cli_licences_bytes);
        return CLI_DONE;
    }
    cli_print(stdout, "mica %s\n", mica_version());
    printf("devices       ");
    for (size_t i = 0; i < mica_device_count(); i++)
        cli_print(stdout, "%s%s", i ? ", " : "", mica_device_name(i));
    printf("\nparts         ");
    const char *feature;
    for (size_t i = 0, n = 0; (feature = mica_feature_name(i)); i++)
        if (mica_has(feature)) cli_print(stdout, "%s%s", n++ ? ", " : "", feature);
    cli_print(stdout, "\nline editing  %s\n", MICA_LINE_EDITOR);
    cli_print(stdout, "compiler      %s\n", __VERSION__);
    cli_print(stdout, "models        %s\n", MICA_INSTALLED_MODELS);
    return CLI_DONE;
}

static const cli_option version_options[] = {
    CLI_OPTION(FLAG, "licences", version_values, licences,
               .help = "print the licences of mica and of what is in it"),
};

const cli_verb cli_verb_version = {
    .synopsis = "",
    .details = "Prints the version, the devices and the libraries of this build.\n",
    .max_args = 0,
    .words = CLI_WORDS_NONE,
    .values_bytes = sizeof(version_values),
    .groups = {{"Options", version_options, CLI_COUNT(version_options), 0}},
    .run = run,
};

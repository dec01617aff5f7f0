/* mica rm: removes models from the Hugging Face cache. */
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

typedef struct rm_values {
    const char *cache;
    bool quiet;
} rm_values;

static int run(const void *verb_values, char **args, int count) {
    const rm_values *values = verb_values;
    if (count == 0) return cli_usage("rm", "which model? Give its name, ORG/NAME");
    for (int i = 0; i < count; i++) {
        uint64_t bytes;
        char text[CLI_NUMBER];
        mica_status status = mica_cache_remove(args[i], values->cache, &bytes);
        if (status != MICA_OK) return cli_fail("%s", mica_last_error());
        if (!values->quiet)
            cli_print(stderr, "removed %s: %s\n", args[i], cli_format_bytes(bytes, text));
    }
    return CLI_DONE;
}

static const cli_option rm_options[] = {
    CLI_OPTION(FOLDER, "cache-dir", rm_values, cache, .placeholder = "FOLDER",
               .help = "the cache; the default is the Hugging Face cache"),
    CLI_OPTION(FLAG, "quiet", rm_values, quiet, .letter = 'q',
               .help = "do not print what was removed"),
};

const cli_verb cli_verb_rm = {
    .synopsis = "NAME...",
    .details = "Removes models from the Hugging Face cache, all their revisions, without asking.\n"
               "NAME is a name that mica list shows, ORG/NAME.\n",
    .examples = "  mica rm mlx-community/gemma-3-1b-it-4bit\n",
    .max_args = -1,
    .words = CLI_WORDS_NONE,
    .values_bytes = sizeof(rm_values),
    .groups = {{"Options", rm_options, CLI_COUNT(rm_options), 0}},
    .run = run,
};

/* mica gc: removes what no model of the Hugging Face cache needs. */
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

typedef struct gc_values {
    const char *cache;
    bool dry_run;
} gc_values;

static int run(const void *verb_values, char **args, int count) {
    const gc_values *values = verb_values;
    uint64_t bytes;
    char text[CLI_NUMBER];
    (void)args;
    (void)count;
    mica_status status = mica_cache_collect(values->cache, values->dry_run, &bytes);
    if (status != MICA_OK) return cli_fail("%s", mica_last_error());
    cli_print(stdout, "%s%s\n", values->dry_run ? "would remove " : "removed ",
              cli_format_bytes(bytes, text));
    return CLI_DONE;
}

static const cli_option gc_options[] = {
    CLI_OPTION(FOLDER, "cache-dir", gc_values, cache, .placeholder = "FOLDER",
               .help = "the cache; the default is the Hugging Face cache"),
    CLI_OPTION(FLAG, "dry-run", gc_values, dry_run, .letter = 'n',
               .help = "only print how much would be removed"),
};

const cli_verb cli_verb_gc = {
    .synopsis = "",
    .details =
        "Removes from the Hugging Face cache what no model needs: revisions that no branch\n"
        "names any more, files that no revision has, and beginnings of files whose download\n"
        "was given up. Models that are being downloaded are left alone.\n",
    .examples = "  mica gc --dry-run\n",
    .max_args = 0,
    .words = CLI_WORDS_NONE,
    .values_bytes = sizeof(gc_values),
    .groups = {{"Options", gc_options, CLI_COUNT(gc_options), 0}},
    .run = run,
};

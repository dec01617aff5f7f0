/* mica pull: downloads models. */
#include "fetch.h"
#include "print.h"
#include "report.h"
#include "verb.h"

#include <stdio.h>
#include <string.h>

static int run(const void *verb_values, char **args, int count) {
    const cli_fetch_options *options = verb_values;
    if (count == 0) return cli_usage("pull", "which model? Give its name, ORG/NAME");
    for (int i = 0; i < count; i++) {
        int code;
        if (options->revision && strchr(args[i], '@'))
            return cli_usage("pull", "two revisions: --revision %s and %s", options->revision,
                             args[i]);
        const char *folder = cli_fetch(args[i], options, &code);
        if (!folder) return code;
        cli_print_result(folder, strlen(folder)), putchar('\n');
        if (!cli_flush()) return CLI_FAILED; /* who reads it need not wait for the others */
    }
    return CLI_DONE;
}

static const cli_option pull_options[] = {
    CLI_OPTION(TEXT, "revision", cli_fetch_options, revision, .placeholder = "REVISION",
               .help = "a branch, a tag or a commit; the default is main"),
    CLI_OPTION(TEXTS, "include", cli_fetch_options, include, .placeholder = "PATTERN",
               .help = "download these files, such as \"*.txt\"; may be repeated; the default is "
                       "what mica reads, as above"),
    CLI_OPTION(FOLDER, "cache-dir", cli_fetch_options, cache, .placeholder = "FOLDER",
               .help = "the cache to download to; the default is the Hugging Face cache"),
    CLI_OPTION(INT, "connections", cli_fetch_options, connections, .placeholder = "N",
               .initial = "4", .min = 1, .max = 32, .help = "number of files to download at once"),
    CLI_OPTION(FLAG, "offline", cli_fetch_options, offline,
               .help = "download nothing: print the folder if the cache has the model"),
    CLI_OPTION(FLAG, "quiet", cli_fetch_options, quiet, .letter = 'q', .help = "print no progress"),
};

const cli_verb cli_verb_pull = {
    .synopsis = "NAME[@REVISION]...",
    .details =
        "Downloads models to the Hugging Face cache, which other programs use, too, and prints\n"
        "their folders. NAME is a repository of the hub, ORG/NAME. Files that the cache has are\n"
        "not downloaded again, interrupted downloads are continued, and every file's checksum is\n"
        "checked. Commands that take a MODEL take such a name, too, and ask before they download.\n"
        "\n"
        "Downloaded is what mica reads: *.json, *.jinja and *.safetensors outside of folders, and\n"
        "the modules of sentence-transformers (1_Pooling). Left out are other folders (original/,\n"
        "onnx/), which hold the same weights again, weights in other forms (*.bin, *.pth, "
        "*.gguf),\n"
        "texts and pictures. --include names other files; then these alone are downloaded.\n"
        "\n"
        "The token for private and gated models is $HF_TOKEN, or the one that hf auth login\n"
        "keeps. HF_ENDPOINT is the hub's address, HF_HOME and HF_HUB_CACHE say where the cache "
        "is,\n"
        "and HF_HUB_OFFLINE=1 is --offline.\n",
    .examples = "  mica pull mlx-community/gemma-3-1b-it-4bit\n"
                "  mica chat \"$(mica pull mlx-community/Qwen3-0.6B-4bit)\"\n",
    .max_args = -1,
    .words = CLI_WORDS_NONE,
    .values_bytes = sizeof(cli_fetch_options),
    .groups = {{"Download", pull_options, CLI_COUNT(pull_options), 0}},
    .run = run,
};

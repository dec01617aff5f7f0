/* mica show: describes a model, and says whether it fits. */
#include "info.h"
#include "model.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <string.h>

typedef struct show_values {
    cli_model_values model; /* the folder and the adapter */
    int64_t context, fit;
    bool json;
} show_values;

/* The memory that the model needs at a context, and the memory of the machine. */
typedef struct needs {
    int64_t context;
    uint64_t weight_bytes, cache_bytes, memory_bytes;
    int64_t largest; /* largest context that fits memory and model; 0: none fits */
    bool in_model, in_memory;
} needs;

static bool in_memory(const mica_model *model, const needs *n, int64_t context) {
    uint64_t cache_bytes = mica_model_cache_bytes(model, context);
    return cache_bytes <= n->memory_bytes && n->weight_bytes <= n->memory_bytes - cache_bytes;
}

static needs find_needs(const mica_model *model, const mica_model_info *info, int64_t context) {
    needs n = {.context = context > 0 ? context : info->context_length};
    n.weight_bytes = info->weight_bytes;
    n.cache_bytes = mica_model_cache_bytes(model, n.context);
    n.memory_bytes = cli_device_info(mica_model_device(model)).memory_bytes;
    n.in_model = n.context <= info->context_length;
    n.in_memory = in_memory(model, &n, n.context);

    int64_t above = info->context_length + 1; /* the answer is below this */
    while (n.largest + 1 < above) {
        int64_t middle = n.largest + (above - n.largest) / 2;
        if (in_memory(model, &n, middle))
            n.largest = middle;
        else
            above = middle;
    }
    return n;
}

/* Prints a row for each line of the note. */
static void print_note(const char *note) {
    for (size_t len; *note; note += len + (note[len] == '\n')) {
        len = strcspn(note, "\n");
        cli_print(stdout, "note          %.*s\n", (int)len, note);
    }
}

static void print_fit(const mica_model_info *info, const needs *n) {
    char a[CLI_NUMBER], b[CLI_NUMBER];
    cli_print(stdout, "fits          %s: ", n->in_memory && n->in_model ? "yes" : "no");
    if (!n->in_memory || n->in_model)
        cli_print(stdout, "needs %s of %s", cli_format_bytes(n->weight_bytes + n->cache_bytes, a),
                  cli_format_bytes(n->memory_bytes, b));
    if (!n->in_model)
        cli_print(stdout, "%sthe model's context is %s tokens", n->in_memory ? "" : ", and ",
                  cli_format_count((uint64_t)info->context_length, a));
    if (n->largest > 0)
        cli_print(stdout, "\nlargest       %s tokens\n", cli_format_count((uint64_t)n->largest, a));
    else
        puts("\nlargest       none: the weights alone need more memory");
}

/* What answers have beside text. */
static void print_talk(const mica_model_info *info) {
    if (info->call_format) cli_print(stdout, "calls         %s\n", info->call_format);
    if (!info->thought_mark) return;
    cli_print(stdout, "thoughts      from %s", info->thought_mark);
    if (info->thinking_variable) cli_print(stdout, ", by %s", info->thinking_variable);
    puts("");
}

static void print_text(const mica_model_info *info, const needs *n) {
    char a[CLI_NUMBER], b[CLI_NUMBER], c[CLI_NUMBER];
    cli_print(stdout, "model         %s\n", info->path);
    cli_print(stdout, "architecture  %s, run as %s by %s\n", info->architecture, info->family,
              info->engine);
    cli_print(stdout, "parameters    %s", cli_format_count(info->parameters, a));
    if (info->active_parameters && info->active_parameters < info->parameters)
        cli_print(stdout, ", of which a token uses %s",
                  cli_format_count(info->active_parameters, a));
    puts("");
    cli_print(stdout, "quantisation  %s\n", info->quantization);
    cli_print(stdout, "other dtypes  %s\n", info->dtype);
    if (info->adapter)
        cli_print(stdout, "adapter       %s, %s parameters\n", info->adapter,
                  cli_format_count(info->adapter_parameters, a));
    printf("layers        %" PRId64, info->layers);
    if (info->sliding_layers > 0)
        cli_print(stdout, ", %" PRId64 " with a window of %s tokens", info->sliding_layers,
                  cli_format_count((uint64_t)info->sliding_window, a));
    cli_print(stdout, "\nhidden        %s", cli_format_count((uint64_t)info->hidden_size, a));
    if (info->intermediate_size)
        cli_print(stdout, ", MLP %s", cli_format_count((uint64_t)info->intermediate_size, b));
    if (info->experts)
        cli_print(stdout, "\nexperts       %" PRId64 " of %s, of which a token picks %" PRId64,
                  info->experts, cli_format_count((uint64_t)info->expert_size, a),
                  info->experts_per_token);
    puts("");
    printf("heads         %" PRId64 " of %" PRId64 ", %" PRId64 " for keys and values\n",
           info->heads, info->head_dim, info->kv_heads);
    cli_print(stdout, "vocabulary    %s\n", cli_format_count((uint64_t)info->vocab_size, a));
    cli_print(stdout, "context       %s tokens\n",
              cli_format_count((uint64_t)info->context_length, a));
    print_talk(info);
    cli_print(stdout, "memory        %s weights and %s cache at %s tokens\n",
              cli_format_bytes(n->weight_bytes, a), cli_format_bytes(n->cache_bytes, b),
              cli_format_count((uint64_t)n->context, c));
    print_fit(info, n);
    if (info->note) print_note(info->note);
}

static void print_field(const char *name, const char *value) {
    cli_print(stdout, "  \"%s\": ", name);
    cli_print_json(value, stdout);
    puts(",");
}

static void print_json(const mica_model_info *info, const needs *n) {
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"bits", info->bits},
        {"group_size", info->group_size},
        {"layers", info->layers},
        {"hidden_size", info->hidden_size},
        {"intermediate_size", info->intermediate_size},
        {"experts", info->experts},
        {"experts_per_token", info->experts_per_token},
        {"expert_size", info->expert_size},
        {"heads", info->heads},
        {"kv_heads", info->kv_heads},
        {"head_dim", info->head_dim},
        {"vocab_size", info->vocab_size},
        {"context_length", info->context_length},
        {"sliding_window", info->sliding_window},
        {"sliding_layers", info->sliding_layers},
        {"at_context", n->context},
    };
    puts("{");
    print_field("path", info->path);
    print_field("engine", info->engine);
    print_field("family", info->family);
    print_field("architecture", info->architecture);
    print_field("quantization", info->quantization);
    print_field("dtype", info->dtype);
    if (info->adapter) print_field("adapter", info->adapter);
    if (info->call_format) print_field("call_format", info->call_format);
    if (info->thought_mark) print_field("thought_mark", info->thought_mark);
    if (info->thinking_variable) print_field("thinking_variable", info->thinking_variable);
    if (info->note) print_field("note", info->note);
    printf("  \"parameters\": %" PRIu64 ",\n", info->parameters);
    if (info->active_parameters)
        printf("  \"active_parameters\": %" PRIu64 ",\n", info->active_parameters);
    for (size_t i = 0; i < CLI_COUNT(numbers); i++)
        cli_print(stdout, "  \"%s\": %" PRId64 ",\n", numbers[i].name, numbers[i].value);
    printf("  \"weight_bytes\": %" PRIu64 ",\n", n->weight_bytes);
    printf("  \"cache_bytes\": %" PRIu64 ",\n", n->cache_bytes);
    printf("  \"memory_bytes\": %" PRIu64 ",\n", n->memory_bytes);
    printf("  \"largest_context\": %" PRId64 ",\n", n->largest);
    cli_print(stdout, "  \"fits\": %s\n}\n", n->in_memory && n->in_model ? "true" : "false");
}

static int run(const void *verb_values, char **args, int count) {
    const show_values *values = verb_values;
    int code;
    mica_model *model =
        cli_model_open_default(&values->model, count > 0 ? args[0] : NULL, "show", false, &code);
    if (!model) return code;
    mica_model_info info = cli_model_info(model);
    needs n = find_needs(model, &info, values->fit > 0 ? values->fit : values->context);
    if (values->json)
        print_json(&info, &n);
    else
        print_text(&info, &n);
    mica_model_close(&model);
    return values->fit > 0 && !(n.in_memory && n.in_model) ? CLI_FAILED : CLI_DONE;
}

static const cli_option show_options[] = {
    CLI_OPTION(INT, "context", show_values, context, .letter = 'c', .placeholder = "N",
               .initial = "0", .max = 1e9,
               .help = "context length, in tokens, to compute memory for; 0: the model's own"),
    CLI_OPTION(INT, "fit", show_values, fit, .placeholder = "N", .min = 1, .max = 1e9,
               .help = "as --context, but fail if N tokens do not fit"),
    CLI_OPTION(FLAG, "json", show_values, json, .help = "print a JSON object"),
};

const cli_verb cli_verb_show = {
    .synopsis = "[MODEL]",
    .details = "Prints a model's architecture, parameters, quantisation and context length, the\n"
               "memory that it needs, whether this machine has that memory, and the largest\n"
               "context that fits. With --fit the exit code is 1 if the model does not fit.\n"
               "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica show ~/models/gemma-3-1b-it --context 32768\n"
                "  mica show ~/models/gemma-3-1b-it --fit 8192 && echo \"it fits\"\n",
    .max_args = 1,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(show_values),
    .groups = {{"Output", show_options, CLI_COUNT(show_options), 0},
               {"Model", cli_model_options, CLI_MODEL_PLACES_OF_LAYERS,
                offsetof(show_values, model)}},
    .run = run,
};

#include "constraint.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

const cli_option cli_constraint_options[CLI_CONSTRAINT_OPTIONS] = {
    CLI_OPTION(FLAG, "json-object", cli_constraint_values, json_object, .no_variable = true,
               .help = "the answer is a JSON object"),
    CLI_OPTION(TEXT, "json-schema", cli_constraint_values, json_schema, .placeholder = "SCHEMA",
               .no_variable = true, .help = "the answer is a JSON document that satisfies SCHEMA"),
    CLI_OPTION(TEXT, "regex", cli_constraint_values, regex, .placeholder = "PATTERN",
               .no_variable = true,
               .help = "the whole answer matches PATTERN, a regular expression"),
    CLI_OPTION(TEXT, "grammar", cli_constraint_values, grammar, .placeholder = "GRAMMAR",
               .no_variable = true,
               .help = "the answer is one of GRAMMAR, in GBNF (root ::= ...) or in Lark's notation "
                       "(start: ...)"),
    CLI_OPTION(TEXTS, "choice", cli_constraint_values, choice, .placeholder = "TEXT",
               .no_variable = true, .help = "the answer is TEXT, or another one; may be repeated"),
    CLI_OPTION(FILE, "json-schema-file", cli_constraint_values, json_schema_file,
               .placeholder = "FILE", .no_variable = true, .help = "read the schema from FILE"),
    CLI_OPTION(FILE, "grammar-file", cli_constraint_values, grammar_file, .placeholder = "FILE",
               .no_variable = true, .help = "read the grammar from FILE"),
};

/* Whether the i-th option is given. */
static bool is_given(const cli_constraint_values *values, size_t i) {
    const cli_option *option = &cli_constraint_options[i];
    const char *member = (const char *)values + option->offset;
    if (option->kind == CLI_FLAG) return *(const bool *)member;
    if (option->kind == CLI_TEXTS) return values->choice.count > 0 || values->choices;
    return *(const char *const *)(const void *)member != NULL;
}

/* Finds the option that is given; CLI_CONSTRAINT_OPTIONS: none is. dashes: before names in why. */
static bool find_given(const cli_constraint_values *values, const char *dashes, size_t *found,
                       char *why, size_t why_bytes) {
    *found = CLI_CONSTRAINT_OPTIONS;
    for (size_t i = 0; i < CLI_CONSTRAINT_OPTIONS; i++) {
        if (!is_given(values, i)) continue;
        if (*found < CLI_CONSTRAINT_OPTIONS) {
            snprintf(why, why_bytes, "two constraints: %s%s and %s%s", dashes,
                     cli_constraint_options[*found].name, dashes, cli_constraint_options[i].name);
            return false;
        }
        *found = i;
    }
    return true;
}

/* Writes the texts to choose from as a JSON array. */
static bool append_choices(cli_text *text, const cli_constraint_values *values) {
    const cli_texts *texts = &values->choice;
    if (values->choices) return cli_text_append(text, values->choices, strlen(values->choices));
    bool done = cli_text_append(text, "[", 1);
    for (size_t i = 0; done && i < texts->count; i++)
        done = (i == 0 || cli_text_append(text, ", ", 2)) &&
               cli_text_append_json(text, texts->values[i], strlen(texts->values[i]));
    return done && cli_text_append(text, "]", 1);
}

static bool read_file(cli_text *text, const char *path) {
    return cli_text_read_file(text, CLI_TEXT_OF_GRAMMAR, path) && cli_text_check(text, path) &&
           cli_text_append(text, "", 0); /* so that an empty file is a text */
}

/* Of the i-th option. */
static bool make(const cli_constraint_values *values, size_t i, cli_constraint *out) {
    static const mica_constraint_kind kinds[CLI_CONSTRAINT_OPTIONS] = {
        MICA_CONSTRAINT_JSON_OBJECT, MICA_CONSTRAINT_JSON_SCHEMA, MICA_CONSTRAINT_REGEX,
        MICA_CONSTRAINT_GRAMMAR,     MICA_CONSTRAINT_CHOICE,      MICA_CONSTRAINT_JSON_SCHEMA,
        MICA_CONSTRAINT_GRAMMAR};
    const cli_option *option = &cli_constraint_options[i];
    const void *member = (const char *)values + option->offset;
    out->kind = kinds[i];
    if (option->kind == CLI_FLAG) return true;
    if (option->kind == CLI_TEXTS) return append_choices(&out->text, values);
    const char *text = *(const char *const *)member;
    return option->kind == CLI_FILE ? read_file(&out->text, text)
                                    : cli_text_append(&out->text, text, strlen(text));
}

bool cli_constraint_make(const cli_constraint_values *values, cli_constraint *out, char *why,
                         size_t why_bytes) {
    size_t i;
    *out = (cli_constraint){0};
    if (!find_given(values, "", &i, why, why_bytes)) return false;
    if (i == CLI_CONSTRAINT_OPTIONS || make(values, i, out)) return true;
    snprintf(why, why_bytes, "out of memory");
    return false;
}

int cli_constraint_read(const char *verb_name, const cli_constraint_values *values,
                        cli_constraint *out) {
    size_t i;
    char why[160];
    *out = (cli_constraint){0};
    if (!find_given(values, "--", &i, why, sizeof why)) return cli_usage(verb_name, "%s", why);
    return i == CLI_CONSTRAINT_OPTIONS || make(values, i, out) ? CLI_DONE : CLI_FAILED;
}

const char *cli_constraint_stdin(const cli_constraint_values *values) {
    const char *schema = values->json_schema_file, *grammar = values->grammar_file;
    if (schema && strcmp(schema, "-") == 0) return "--json-schema-file";
    return grammar && strcmp(grammar, "-") == 0 ? "--grammar-file" : NULL;
}

void cli_constraint_set(const cli_constraint *constraint, mica_generate_options *options) {
    if (constraint->kind == MICA_CONSTRAINT_NONE) return;
    options->constraint = constraint->kind;
    options->constraint_text = constraint->text.data;
}

void cli_constraint_deinit(cli_constraint *constraint) {
    free(constraint->text.data);
    *constraint = (cli_constraint){0};
}

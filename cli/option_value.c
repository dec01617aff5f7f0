/* Values of options: read from texts into their members, and printed. */
#include "cli.h"
#include "options.h"
#include "path.h"
#include "print.h"
#include "ui.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *member(const cli_option *option, const void *base) {
    return (char *)(uintptr_t)base + option->offset;
}

static bool parse_int(const char **text, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(*text, &end, 10);
    if (errno || end == *text) return false;
    *text = end;
    *out = value;
    return true;
}

static bool in_range(const cli_option *option, double value, char *why, size_t why_bytes) {
    if (value >= option->min && value <= option->max) return true;
    bool low = value < option->min;
    snprintf(why, why_bytes, "%.15g is %s than %.15g", value, low ? "less" : "more",
             low ? option->min : option->max);
    return false;
}

static bool store_int(const cli_option *option, const char *text, int64_t *out, char *why,
                      size_t why_bytes) {
    const char *end = text;
    if (!parse_int(&end, out) || *end) {
        snprintf(why, why_bytes, "'%s' is not a whole number", text);
        return false;
    }
    return in_range(option, (double)*out, why, why_bytes);
}

/* Other programs take -1 for random. */
static bool store_seed(const char *text, cli_seed *out, char *why, size_t why_bytes) {
    char *end;
    *out = (cli_seed){0};
    if (strcmp(text, "random") == 0 || strcmp(text, "-1") == 0) return true;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || strchr(text, '-')) {
        snprintf(why, why_bytes, "'%s' is neither a whole number of 0 or more nor random", text);
        return false;
    }
    *out = (cli_seed){.value = value, .given = true};
    return true;
}

static bool store_real(const cli_option *option, const char *text, double *out, char *why,
                       size_t why_bytes) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || value != value) {
        snprintf(why, why_bytes, "'%s' is not a number", text);
        return false;
    }
    *out = value;
    return in_range(option, value, why, why_bytes);
}

static bool store_ints(const cli_option *option, const char *text, cli_ints *out, char *why,
                       size_t why_bytes) {
    const char *end = text;
    out->count = 0;
    for (;;) {
        int64_t value;
        if (!parse_int(&end, &value) || (*end && *end != ',')) {
            snprintf(why, why_bytes, "'%s' is not a list of whole numbers such as 1,2,4", text);
            return false;
        }
        if (out->count == CLI_INTS_MAX) {
            snprintf(why, why_bytes, "more than %d numbers", CLI_INTS_MAX);
            return false;
        }
        if (!in_range(option, (double)value, why, why_bytes)) return false;
        out->values[out->count++] = value;
        if (!*end) return true;
        end++;
    }
}

static bool store_flag(const char *text, bool *out, char *why, size_t why_bytes) {
    static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};
    for (size_t i = 0; i < CLI_COUNT(words); i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *out = i % 2 == 1;
        return true;
    }
    snprintf(why, why_bytes, "'%s' is neither on nor off", text);
    return false;
}

static bool store_choice(const cli_option *option, const char *text, int64_t *out, char *why,
                         size_t why_bytes);

static bool store_switch(const cli_option *option, const char *text, int *out, char *why,
                         size_t why_bytes) {
    bool on = false;
    int64_t choice;
    if (option->choices && store_choice(option, text, &choice, why, why_bytes)) {
        *out = choice > 0 ? CLI_SWITCH_CHOICE + (int)choice - 1 : 0;
        return true;
    }
    if (!store_flag(text, &on, why, why_bytes)) {
        if (option->choices)
            snprintf(why, why_bytes, "'%s' is not one of: on off %s", text, option->choices);
        return false;
    }
    *out = on ? 1 : -1;
    return true;
}

static bool store_choice(const cli_option *option, const char *text, int64_t *out, char *why,
                         size_t why_bytes) {
    const char *choice = option->choices;
    for (int64_t i = 0; *choice; i++) {
        size_t len = strcspn(choice, " ");
        if (strlen(text) == len && strncmp(choice, text, len) == 0) {
            *out = i;
            return true;
        }
        choice += len;
        choice += strspn(choice, " ");
    }
    snprintf(why, why_bytes, "'%s' is not one of: %s", text, option->choices);
    return false;
}

static bool too_many(size_t most, char *why, size_t why_bytes) {
    snprintf(why, why_bytes, "given more than %zu times", most);
    return false;
}

static bool store_text(const char *text, const char **out, char *why, size_t why_bytes) {
    *out = text;
    if (cli_is_utf8(text, strlen(text))) return true;
    snprintf(why, why_bytes, "the text is not UTF-8");
    return false;
}

static bool store_texts(const char *text, cli_texts *out, char *why, size_t why_bytes) {
    if (out->count == CLI_TEXTS_MAX) return too_many(CLI_TEXTS_MAX, why, why_bytes);
    if (!*text) snprintf(why, why_bytes, "the text is empty");
    return *text && store_text(text, &out->values[out->count++], why, why_bytes);
}

static bool store_biases(const char *text, cli_biases *out, char *why, size_t why_bytes) {
    const char *end = text;
    char *value_end = NULL;
    int64_t id = -1;
    double bias = 0;
    bool read = parse_int(&end, &id) && *end && strchr("=+-", *end);
    if (read && *end != '=') end--; /* llama.cpp's 42+1.5 and 42-1.5 */
    if (read) bias = strtod(end + 1, &value_end);
    if (!read || value_end == end + 1 || *value_end || bias != bias || id < 0 || id > INT32_MAX) {
        snprintf(why, why_bytes, "'%s' is not ID=VALUE, such as 42=-1.5", text);
        return false;
    }
    if (!((float)bias < INFINITY)) {
        snprintf(why, why_bytes, "%s is too much for a logit", end + 1);
        return false;
    }
    if (out->count == CLI_BIASES_MAX) return too_many(CLI_BIASES_MAX, why, why_bytes);
    out->values[out->count++] = (mica_logit_bias){(int32_t)id, (float)bias};
    return true;
}

static bool store_path(const char *text, const char **out, char *why, size_t why_bytes) {
    *out = cli_path_expand(text);
    if (!*out) snprintf(why, why_bytes, "out of memory");
    return *out != NULL;
}

bool cli_option_store(const cli_option *option, const char *text, void *base, char *why,
                      size_t why_bytes) {
    void *to = member(option, base);
    switch (option->kind) {
    case CLI_FLAG:
        return store_flag(text, to, why, why_bytes);
    case CLI_INT:
        return store_int(option, text, to, why, why_bytes);
    case CLI_SEED:
        return store_seed(text, to, why, why_bytes);
    case CLI_REAL:
        return store_real(option, text, to, why, why_bytes);
    case CLI_TEXT:
        return store_text(text, to, why, why_bytes);
    case CLI_FILE:
    case CLI_FOLDER:
        return store_path(text, to, why, why_bytes);
    case CLI_INTS:
        return store_ints(option, text, to, why, why_bytes);
    case CLI_SWITCH:
        return store_switch(option, text, to, why, why_bytes);
    case CLI_CHOICE:
        return store_choice(option, text, to, why, why_bytes);
    case CLI_TEXTS:
        return store_texts(text, to, why, why_bytes);
    case CLI_BIASES:
        return store_biases(text, to, why, why_bytes);
    }
    return false;
}

static void print_seed(const cli_seed *seed, FILE *out) {
    if (seed->given)
        fprintf(out, "%" PRIu64, seed->value);
    else
        fputs("random", out);
}

static void print_switch(const cli_option *option, int value, FILE *out) {
    if (value >= CLI_SWITCH_CHOICE) {
        const char *choice = option->choices;
        for (int i = CLI_SWITCH_CHOICE - 1; i < value; i++)
            choice += strcspn(choice, " ") + 1;
        cli_print(out, "%.*s", (int)strcspn(choice, " "), choice);
    } else if (value != 0) {
        cli_print(out, "%s", value > 0 ? "on" : "off");
    }
}

static void print_texts(const cli_texts *texts, FILE *out) {
    for (size_t i = 0; i < texts->count; i++) {
        if (i > 0) fputc(' ', out);
        cli_print_json(texts->values[i], out);
    }
}

void cli_option_print(const cli_option *option, const void *base, FILE *out) {
    const void *from = member(option, base);
    if (option->kind == CLI_INT) fprintf(out, "%" PRId64, *(const int64_t *)from);
    if (option->kind == CLI_SEED) print_seed(from, out);
    if (option->kind == CLI_REAL) fprintf(out, "%g", *(const double *)from);
    if (option->kind == CLI_FLAG) cli_print(out, "%s", *(const bool *)from ? "on" : "off");
    if (option->kind == CLI_SWITCH) print_switch(option, *(const int *)from, out);
    if (option->kind == CLI_TEXTS) print_texts(from, out);
}

/* The config of `mica tune`: mlx_lm.lora's keys, in YAML or JSON. */
#include "json.h"
#include "report.h"
#include "text.h"
#include "tune.h"
#include "yaml.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path;
    const cli_json *json;
    tune_values *values;
    const tune_values *given; /* by the command line */
    tune_extras *extras;
} reader;

/* ---- values ---- */

static bool is_scalar(const cli_json_node *v) {
    return v->kind != CLI_JSON_ARRAY && v->kind != CLI_JSON_OBJECT;
}

/* The text of a scalar; "" for null. */
static const char *scalar_text(const cli_json_node *v) {
    return v->kind == CLI_JSON_TRUE ? "on" : v->kind == CLI_JSON_FALSE ? "off" : v->text;
}

static bool number(const cli_json_node *v, double *value) {
    char *end;
    if (v->kind != CLI_JSON_NUMBER && v->kind != CLI_JSON_STRING) return false;
    *value = strtod(v->text, &end);
    return *v->text && !*end;
}

static int complain(const reader *r, const char *key, const char *why) {
    return cli_fail("%s: %s: %s", r->path, key, why);
}

/* A copy of a text that lives as long as the extras. */
static const char *keep(tune_extras *extras, const char *text) {
    if (extras->n_texts == CLI_COUNT(extras->texts)) return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    extras->texts[extras->n_texts++] = copy;
    return copy;
}

/* ---- options by their names ---- */

/* The option of a key, whose words are joined by underscores. */
static const cli_option *find_option(const char *key) {
    char name[TUNE_NAME];
    size_t len = strlen(key);
    if (len >= sizeof name) return NULL;
    for (size_t i = 0; i <= len; i++)
        name[i] = (char)(key[i] == '_' ? '-' : key[i]);
    for (size_t i = 0; i < TUNE_OPTIONS; i++)
        if (strcmp(tune_options[i].name, name) == 0) return &tune_options[i];
    return NULL;
}

/* Whether the command line, or a variable, has set a member. */
static bool is_given(const reader *r, const cli_option *option) {
    if (r->given->given[option - tune_options]) return true;
    const char *at = (const char *)r->given + option->offset;
    switch (option->kind) {
    case CLI_INT:
        return *(const int64_t *)(const void *)at != 0;
    case CLI_REAL:
        return *(const double *)(const void *)at != 0.0;
    case CLI_SWITCH:
        return *(const int *)(const void *)at != 0;
    case CLI_TEXTS:
        return ((const cli_texts *)(const void *)at)->count != 0;
    case CLI_FLAG:
        return *(const bool *)(const void *)at;
    default:
        return *(const char *const *)(const void *)at != NULL;
    }
}

static int store(const reader *r, const cli_option *option, const char *key, const char *text) {
    char why[256];
    const char *kept = keep(r->extras, text);
    if (!kept) return complain(r, key, "the config has too many texts, or memory is out");
    if (cli_option_store(option, kept, r->values, why, sizeof why)) return CLI_DONE;
    return complain(r, key, why);
}

static int set_option(const reader *r, const cli_option *option, const char *key,
                      const cli_json_node *v) {
    if (v->kind == CLI_JSON_NULL || is_given(r, option)) return CLI_DONE;
    if (is_scalar(v)) return store(r, option, key, scalar_text(v));
    if (v->kind != CLI_JSON_ARRAY || option->kind != CLI_TEXTS)
        return complain(r, key, "want a single value");
    for (const cli_json_node *e = cli_json_first(r->json, v); e; e = cli_json_next(r->json, e)) {
        int code = is_scalar(e) ? store(r, option, key, scalar_text(e))
                                : complain(r, key, "want a list of texts");
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

/* ---- objects ---- */

/* lora_parameters: rank, scale, alpha, dropout, and keys, which --modules gives. */
static int read_lora(const reader *r, const cli_json_node *object) {
    for (const cli_json_node *v = cli_json_first(r->json, object); v;
         v = cli_json_next(r->json, v)) {
        bool known = strcmp(v->key, "rank") == 0 || strcmp(v->key, "scale") == 0 ||
                     strcmp(v->key, "alpha") == 0 || strcmp(v->key, "dropout") == 0;
        const char *name = strcmp(v->key, "keys") == 0 ? "modules" : known ? v->key : NULL;
        if (!name)
            return complain(r, v->key,
                            "is no key of lora_parameters, which has rank, scale, alpha, "
                            "dropout and keys");
        int code = set_option(r, find_option(name), v->key, v);
        if (code != CLI_DONE) return code;
    }
    return CLI_DONE;
}

static int read_arguments(const reader *r, const cli_json_node *list) {
    mica_schedule *s = &r->extras->lr;
    if (list->kind != CLI_JSON_ARRAY) return complain(r, "lr_schedule.arguments", "want a list");
    for (const cli_json_node *v = cli_json_first(r->json, list); v; v = cli_json_next(r->json, v)) {
        if (s->n_arguments == TUNE_ARGUMENTS || !number(v, &s->arguments[s->n_arguments]))
            return complain(r, "lr_schedule.arguments", "want up to 4 numbers");
        s->n_arguments++;
    }
    return CLI_DONE;
}

static int read_schedule(const reader *r, const cli_json_node *object) {
    tune_extras *x = r->extras;
    double warmup = 0.0;
    int code = CLI_DONE;
    for (const cli_json_node *v = cli_json_first(r->json, object); v && code == CLI_DONE;
         v = cli_json_next(r->json, v)) {
        bool done = true;
        if (strcmp(v->key, "name") == 0)
            snprintf(x->schedule, sizeof x->schedule, "%s", v->text);
        else if (strcmp(v->key, "arguments") == 0)
            code = read_arguments(r, v);
        else if (strcmp(v->key, "warmup") == 0)
            done = number(v, &warmup) && warmup >= 0.0 && warmup < 1e15;
        else if (strcmp(v->key, "warmup_init") == 0)
            done = number(v, &x->lr.warmup_init);
        else
            return complain(r, v->key,
                            "is no key of lr_schedule, which has name, arguments, "
                            "warmup and warmup_init");
        if (!done) return complain(r, v->key, "want a number");
    }
    x->lr.name = x->schedule;
    x->lr.warmup = (int64_t)warmup;
    if (code == CLI_DONE && !*x->schedule) return complain(r, "lr_schedule", "has no name");
    return code;
}

/* 0 of a config is 0, and not the optimiser's own value. */
static double exact_zero(double value) {
    return value == 0.0 ? -1.0 : value;
}

static int read_betas(const reader *r, const cli_json_node *list) {
    double betas[2];
    const cli_json_node *v = list->kind == CLI_JSON_ARRAY ? cli_json_first(r->json, list) : NULL;
    for (int i = 0; i < 2; i++, v = v ? cli_json_next(r->json, v) : NULL)
        if (!v || !number(v, &betas[i])) return complain(r, "betas", "want two numbers");
    r->extras->settings.beta1 = exact_zero(betas[0]);
    r->extras->settings.beta2 = exact_zero(betas[1]);
    return CLI_DONE;
}

static int read_optimizer_key(const reader *r, const cli_json_node *v) {
    mica_optimizer_options *o = &r->extras->settings;
    const struct {
        const char *name;
        double *value;
        bool *flag;
        bool flips;
    } keys[] = {
        {"eps", &o->eps, NULL, false},
        {"weight_decay", &o->weight_decay, NULL, false},
        {"momentum", &o->momentum, NULL, false},
        {"beta_1", &o->beta1, NULL, false},
        {"bias_correction", NULL, &o->bias_correction, false},
        {"relative_step", NULL, &o->relative_step, false},
        {"nesterov", NULL, &o->nesterov, false},
        {"nesterov", NULL, &o->no_nesterov, true},
    };
    if (strcmp(v->key, "betas") == 0) return read_betas(r, v);
    bool known = false;
    for (size_t i = 0; i < CLI_COUNT(keys); i++) {
        double value = 0.0;
        if (strcmp(v->key, keys[i].name) != 0) continue;
        known = true;
        bool is_flag = v->kind == CLI_JSON_TRUE || v->kind == CLI_JSON_FALSE;
        if (keys[i].flag ? !is_flag : !number(v, &value))
            return complain(r, v->key, keys[i].flag ? "want true or false" : "want a number");
        if (keys[i].flag)
            *keys[i].flag = (v->kind == CLI_JSON_TRUE) != keys[i].flips;
        else
            *keys[i].value = exact_zero(value);
    }
    if (known) return CLI_DONE;
    return complain(r, v->key,
                    "is no key of an optimizer's config, which has betas, beta_1, eps, "
                    "weight_decay, momentum, nesterov, bias_correction, relative_step");
}

/* optimizer_config: an object an optimiser. Only that of the chosen one counts. */
static int read_optimizers(const reader *r, const cli_json_node *object) {
    const char *chosen = r->values->optimizer ? r->values->optimizer : "adam";
    if (object->kind == CLI_JSON_NULL) return CLI_DONE;
    if (object->kind != CLI_JSON_OBJECT)
        return complain(r, "optimizer_config", "want an object for each optimizer");
    for (const cli_json_node *v = cli_json_first(r->json, object); v;
         v = cli_json_next(r->json, v)) {
        if (strcmp(v->key, chosen) != 0 || v->kind == CLI_JSON_NULL) continue;
        if (v->kind != CLI_JSON_OBJECT) return complain(r, v->key, "want keys and values");
        for (const cli_json_node *k = cli_json_first(r->json, v); k;
             k = cli_json_next(r->json, k)) {
            int code = read_optimizer_key(r, k);
            if (code != CLI_DONE) return code;
        }
    }
    return CLI_DONE;
}

/* Keys of mlx_lm.lora that have nothing to say here, as long as they say nothing. */
static bool is_idle(const cli_json_node *v) {
    static const char *const keys[] = {"report_to", "project_name", "trust_remote_code",
                                       "hf_dataset", "clear_cache_threshold"};
    bool says = v->kind == CLI_JSON_TRUE || v->kind == CLI_JSON_OBJECT ||
                v->kind == CLI_JSON_ARRAY || (*v->text && strcmp(v->text, "0") != 0);
    for (size_t i = 0; i < CLI_COUNT(keys); i++)
        if (strcmp(v->key, keys[i]) == 0) return !says;
    return false;
}

static int read_key(const reader *r, const cli_json_node *v) {
    if (is_idle(v) || strcmp(v->key, "optimizer_config") == 0) return CLI_DONE;
    bool object = v->kind == CLI_JSON_OBJECT;
    if (object && strcmp(v->key, "lora_parameters") == 0) return read_lora(r, v);
    if (object && strcmp(v->key, "lr_schedule") == 0) return read_schedule(r, v);
    if (v->kind == CLI_JSON_NULL && strcmp(v->key, "lr_schedule") == 0) return CLI_DONE;
    const cli_option *option = find_option(v->key);
    if (option && strcmp(option->name, "config") != 0) return set_option(r, option, v->key, v);
    return complain(r, v->key,
                    "is no key that mica tune has: its keys are the names of its "
                    "options, lora_parameters, lr_schedule and optimizer_config");
}

static int read_keys(const reader *r) {
    const cli_json_node *root = r->json->nodes;
    if (root->kind == CLI_JSON_NULL) return CLI_DONE;
    if (root->kind != CLI_JSON_OBJECT) return cli_fail("%s: want keys and values", r->path);
    for (const cli_json_node *v = cli_json_first(r->json, root); v; v = cli_json_next(r->json, v)) {
        int code = read_key(r, v);
        if (code != CLI_DONE) return code;
    }
    const cli_json_node *optimizers = cli_json_find(r->json, root, "optimizer_config");
    return optimizers ? read_optimizers(r, optimizers) : CLI_DONE;
}

/* ---- files ---- */

static bool is_json(const char *path, const cli_text *text) {
    size_t len = strlen(path), blank = text->len ? strspn(text->data, " \t\r\n") : 0;
    return (len > 5 && strcmp(path + len - 5, ".json") == 0) ||
           (blank < text->len && text->data[blank] == '{');
}

/* Reports the place of an error in a JSON text; columns are bytes. */
static void complain_at(const char *path, const char *text, size_t at, const char *why) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++, column++)
        if (text[i] == '\n') {
            line++;
            column = 0;
        }
    cli_fail("%s: line %zu, column %zu: %s", path, line, column, why);
}

static int parse(const char *path, const cli_text *text, cli_json *json) {
    char reason[256];
    const char *why = reason;
    cli_text converted = {0};
    const cli_text *source = text;
    if (!is_json(path, text)) {
        source = &converted;
        if (!cli_yaml_to_json(text->data ? text->data : "", text->len, &converted, reason,
                              sizeof reason)) {
            free(converted.data);
            return cli_fail("%s: %s", path, reason);
        }
    }
    bool done = cli_json_parse(json, source->data ? source->data : "", source->len, &why);
    if (!done && source == text)
        complain_at(path, text->data ? text->data : "", json->fault, why);
    else if (!done)
        cli_fail("%s: %s", path, why);
    free(converted.data);
    return done ? CLI_DONE : CLI_FAILED;
}

int tune_read_config(const char *path, tune_values *values, tune_extras *extras) {
    cli_text text = {0};
    cli_json json = {0};
    const tune_values given = *values;
    if (!cli_text_read_file(&text, CLI_TEXT_OF_CONFIG, path)) return CLI_FAILED;
    int code = parse(path, &text, &json);
    if (code == CLI_DONE) {
        const reader r = {path, &json, values, &given, extras};
        code = read_keys(&r);
    }
    cli_json_deinit(&json);
    free(text.data);
    return code;
}

void tune_extras_deinit(tune_extras *extras) {
    for (size_t i = 0; i < extras->n_texts; i++)
        free(extras->texts[i]);
    extras->n_texts = 0;
}

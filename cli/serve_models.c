#define _POSIX_C_SOURCE 200809L
#include "serve_models.h"

#include "model.h"
#include "path.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

/* What requests call a model: the name of its repository, or what its folder is called. A text that
 * lives as long as the program; NULL: no memory, which was reported. */
static const char *name_of(const char *word, const char *folder) {
    if (word && !cli_is_model(word)) return word;
    char *copy = strdup(folder);
    if (!copy) {
        cli_fail("out of memory");
        return NULL;
    }
    size_t len = strlen(copy);
    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    const char *slash = strrchr(copy, '/');
    const char *name = cli_path_keep(slash && slash[1] ? slash + 1 : copy);
    free(copy);
    return name;
}

static int find_all(const serve_named *named, char **words, int count, serve_models *models) {
    size_t n = count > 0 ? (size_t)count : 1;
    models->names = calloc(n, sizeof *models->names);
    models->folders = calloc(n, sizeof *models->folders);
    if (!models->names || !models->folders) return cli_fail("out of memory");
    for (size_t i = 0; i < n; i++) {
        int code;
        const char *word = count > 0 ? words[i] : NULL;
        const char *folder = cli_model_find(named->model, word, named->yes, "serve", &code);
        if (!folder) return code;
        if (!word) word = named->model;
        models->folders[i] = folder;
        models->names[i] = named->name ? named->name : name_of(word, folder);
        if (!models->names[i]) return CLI_FAILED;
        models->count = i + 1;
    }
    return CLI_DONE;
}

/* Takes an adapter: NAME=FOLDER, or the folder of one for all named models. */
static int take_adapter(const char *text, serve_models *models) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t len = strspn(text, letters);
    if (len == 0 || text[len] != '=') {
        if (models->own_adapter)
            return cli_usage("serve",
                             "two adapters for all models: %s and %s; give them names, "
                             "NAME=FOLDER",
                             models->own_adapter, text);
        models->own_adapter = cli_path_expand(text);
        return models->own_adapter ? CLI_DONE : CLI_FAILED;
    }
    char *name = strndup(text, len);
    size_t i = models->adapter_count;
    models->adapter_names[i] = name ? cli_path_keep(name) : NULL;
    models->adapter_folders[i] = cli_path_expand(text + len + 1);
    free(name);
    models->adapter_count++;
    return models->adapter_names[i] && models->adapter_folders[i] ? CLI_DONE
                                                                  : cli_fail("out of memory");
}

int serve_models_find(const serve_named *named, char **words, int count, const cli_texts *adapters,
                      serve_models *models) {
    if (named->name && count > 1)
        return cli_usage("serve", "--name %s is for one model", named->name);
    int code = find_all(named, words, count, models);
    for (size_t i = 0; code == CLI_DONE && i < adapters->count; i++)
        code = take_adapter(adapters->values[i], models);
    return code;
}

void serve_models_free(serve_models *models) {
    free(models->names);
    free(models->folders);
    *models = (serve_models){0};
}

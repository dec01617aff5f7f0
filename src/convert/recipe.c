#include "convert/recipe.h"

#include "model/spec.h"

#include <mica/convert.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const mc_recipe recipes[] = {
    {"mixed_2_6", 2, 6},
    {"mixed_3_4", 3, 4},
    {"mixed_3_6", 3, 6},
    {"mixed_4_6", 4, 6},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

size_t mica_recipe_count(void) {
    return N_RECIPES;
}

const char *mica_recipe_name(size_t i) {
    return i < N_RECIPES ? recipes[i].name : NULL;
}

const mc_recipe *mc_recipe_find(const char *name) {
    for (size_t i = 0; i < N_RECIPES; i++)
        if (strcmp(name, recipes[i].name) == 0) return &recipes[i];
    return NULL;
}

int mc_module_layer(const char *module) {
    static const char *const words[] = {"layers.", "layer."};
    const char *at = NULL;
    size_t i = 0;
    while (i < 2 && !(at = strstr(module, words[i])))
        i++;
    if (!at || (at > module && at[-1] != '.')) return -1;
    at += strlen(words[i]);
    long layer = *at >= '0' && *at <= '9' ? strtol(at, NULL, 10) : -1;
    return layer < MC_MAX_LAYERS ? (int)layer : -1;
}

int mc_recipe_bits(const mc_recipe *recipe, const char *module, bool head, int n_layers) {
    int layer = mc_module_layer(module), eighth = n_layers / 8;
    layer = layer < 0 ? 0 : layer;
    bool more = layer < eighth || layer >= 7 * n_layers / 8 ||
                (layer > eighth && (layer - eighth) % 3 == 2);
    return head || (more && mc_block_is_sensitive(module)) ? recipe->high_bits : recipe->low_bits;
}

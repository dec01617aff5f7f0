/* How the matrices of a model are to be quantised. */
#ifndef CONVERT_RECIPE_H
#define CONVERT_RECIPE_H

#include <mica/ops.h>

#include <stdbool.h>

/* A mixed recipe of two numbers of bits. */
typedef struct mc_recipe {
    const char *name;
    int low_bits, high_bits;
} mc_recipe;

/* The recipe of a name; NULL: there is none. */
const mc_recipe *mc_recipe_find(const char *name);

/* The bits of a matrix. module: "model.layers.3.mlp.down_proj"; head: it is the decoder's head. */
int mc_recipe_bits(const mc_recipe *recipe, const char *module, bool head, int n_layers);

/* The index of a module's layer, below MC_MAX_LAYERS; -1: it is in none. */
int mc_module_layer(const char *module);

#endif

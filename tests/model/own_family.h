/* Families that tests add: a folder for a model of one, with random weights, and what every family
 * must be able to do. A function that cannot do its work ends the test with a message. */
#ifndef MODEL_OWN_FAMILY_H
#define MODEL_OWN_FAMILY_H

#include "model/family.h"
#include "model/fixture.h"

/* Makes a folder of a model of a family, with the vocabulary and the tokenizer of a fixture, by its
 * config.json: each tensor of its slots is random, in +-0.4 (test_temp_dir_remove it). The family
 * is added, if it is not yet. */
char *own_model(const mc_family *family, const char *config);

mc_lm *own_open(mica_device *device, const char *folder);

/* The ids of a text for it, below the vocabulary. */
enum { OWN_TEXT = 21 };
extern const int32_t own_text[OWN_TEXT];

/* The pass over a chunk, in several chunks with caches, and in a batch, are the same. */
void own_check_passes(const char *folder);

/* With and without a pool: a session saved and loaded goes on as it was; a text with a common
 * prefix takes it; drafts that fail leave no trace. */
void own_check_sessions(const char *folder);

/* The matrix of a module is quantised in a conversion, and the model is still much the same.
 * written: what it is called then; NULL: the same. */
void own_check_quantised(const char *folder, const char *module, const char *written);

/* Factors of a module are trained, change the model, and are fused into it. */
void own_check_tuned(const char *folder, const char *module);

/* Makes a folder of a model whose matrices of "switch_mlp" are tensors of their own, in the order
 * of their names (test_temp_dir_remove it). Its config says "listed" behind its type. */
char *own_list_experts(const char *folder, const char *type, int experts);

/* A model whose matrices of "switch_mlp" are tensors of their own instead ("experts.7"), and whose
 * config says "listed" behind its type, computes the same, quantised or not. A matrix of theirs
 * stays where it is mapped, if they lie one distance apart. */
void own_check_listed(const char *folder, const char *type, int experts, const char *module);

/* The same of two experts, one in a file of its own: a matrix of theirs is a copy. */
void own_check_sharded(const char *folder, const char *type, const char *module);

#endif

/* Constraints of grammars: masks over a model's vocabulary.
 *
 * An mc_grammars belongs to one model: it has the tree of its tokens, built when the first answer
 * needs it, and keeps the states and masks of the grammars that were used last, for the next answer
 * of a grammar that was built alike and of the same owner. What it keeps is bounded in bytes.
 *
 * Threads: an mc_grammars may be used by any number of threads; a constraint belongs to one. */
#ifndef GRAMMAR_GRAMMAR_CONSTRAINT_H
#define GRAMMAR_GRAMMAR_CONSTRAINT_H

#include "grammar/grammar.h"
#include "session/constraint.h"

#include <mica/tokenizer.h>

#include <stdint.h>

typedef struct mc_grammars mc_grammars;
struct mc_token_trie;

/* vocab: the number of the model's logits. Builds nothing yet; keeps the tokenizer open.
 * errors  MICA_ENOMEM */
mica_status mc_grammars_open(const mica_tokenizer *tokenizer, size_t vocab, mc_grammars **grammars);
void mc_grammars_close(mc_grammars **grammars); /* constraints may outlive it; takes NULL inside */
/* Keeps it until it is closed once more. */
mc_grammars *mc_grammars_retain(mc_grammars *grammars);

/* The tree of the vocabulary, which lives as long as the grammars. errors  MICA_ENOMEM */
mica_status mc_grammars_need_trie(mc_grammars *grammars, const struct mc_token_trie **trie);

/* A constraint whose answer is a document of the grammar, which is kept as long as needed. Opening
 * one takes no time and no states: these come with its first mask.
 *  owner   who asks: nobody else can tell by the time that an answer takes what grammar it had
 *  errors  MICA_ENOMEM */
mica_status mc_grammars_constrain(mc_grammars *grammars, mc_grammar *grammar, size_t owner,
                                  mc_constraint **constraint);

/* Computes the first mask of such a constraint, so that a grammar that takes too long fails before
 * an answer begins. What it finds is kept for the next constraint.
 *  errors  MICA_EUNSUPPORTED the grammar takes too many steps (grammar/matcher.h); MICA_ENOMEM */
mica_status mc_grammars_check(mc_grammars *grammars, mc_grammar *grammar, size_t owner);

/* Bytes that are kept for answers to come, and how many grammars have them. */
size_t mc_grammars_kept(mc_grammars *grammars, size_t *count);

#endif

/* Vectors of texts, as several APIs have them. Threads: any. */
#ifndef SERVE_OPENAI_EMBEDDINGS_H
#define SERVE_OPENAI_EMBEDDINGS_H

#include <stddef.h>

/* Normalises the first n numbers of a vector that is longer. */
void mc_embeddings_shorten(float *vector, size_t n);

#endif

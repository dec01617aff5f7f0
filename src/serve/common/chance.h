/* Random numbers of the system, for names and seeds. Threads: any. */
#ifndef SERVE_COMMON_CHANCE_H
#define SERVE_COMMON_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t mc_chance(void);

/* Random bytes for keys, [n], at most 256. false: the system gives none. */
bool mc_chance_bytes(void *bytes, size_t n);

enum { MC_NAME_BYTES = 48 };
/* Writes "<prefix>-" and 24 random hexadecimal digits. prefix: at most 16 bytes. */
void mc_chance_name(const char *prefix, char out[MC_NAME_BYTES]);

#endif

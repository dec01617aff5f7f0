/* Random numbers of the system, for names and seeds. Threads: any. */
#ifndef SERVE_CHANCE_H
#define SERVE_CHANCE_H

#include <stdint.h>

uint64_t mc_chance(void);

enum { MC_NAME_BYTES = 48 };
/* Writes "<prefix>-" and 24 random hexadecimal digits. prefix: at most 16 bytes. */
void mc_chance_name(const char *prefix, char out[MC_NAME_BYTES]);

#endif

/* White space of Unicode. */
#ifndef TEXT_SPACE_H
#define TEXT_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a character has the White_Space property: `\s` of most pattern languages. */
bool mc_is_space(uint32_t codepoint);

/* The number of bytes of white space at the start or end of text, which is valid UTF-8. */
size_t mc_space_at_start(const char *text, size_t len);
size_t mc_space_at_end(const char *text, size_t len);

#endif

/* White space of Unicode. */
#ifndef TEXT_SPACE_H
#define TEXT_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The White_Space property, as `\s` of most pattern languages has it. */
bool mc_is_space(uint32_t codepoint);

/* Bytes of white space that text starts with, or ends with. Text is valid UTF-8. */
size_t mc_space_at_start(const char *text, size_t len);
size_t mc_space_at_end(const char *text, size_t len);

#endif

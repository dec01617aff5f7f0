#include "text/find.h"

#include <string.h>

size_t mc_find(mc_str text, mc_str pattern, size_t from) {
    while (text.len >= pattern.len && from <= text.len - pattern.len) {
        size_t room = text.len - pattern.len + 1 - from;
        const char *hit = memchr(text.ptr + from, pattern.ptr[0], room);
        if (!hit) break;
        if (memcmp(hit, pattern.ptr, pattern.len) == 0) return (size_t)(hit - text.ptr);
        from = (size_t)(hit - text.ptr) + 1;
    }
    return text.len;
}

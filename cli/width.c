#include "width.h"

#include "clean.h"

#include <utf8proc.h>

/* The columns of a code point alone. */
static int columns_of(uint32_t c) {
    enum { FLAG_A = 0x1f1e6, FLAG_Z = 0x1f1ff };
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return 0;
    return c >= FLAG_A && c <= FLAG_Z ? 2 : utf8proc_charwidth((utf8proc_int32_t)c);
}

int cli_width_add(cli_width *width, uint32_t c, bool *begins) {
    enum { AS_EMOJI = 0xfe0f };
    *begins =
        width->last == 0 || utf8proc_grapheme_break_stateful((utf8proc_int32_t)width->last,
                                                             (utf8proc_int32_t)c, &width->state);
    int before = *begins ? 0 : width->columns, now = columns_of(c);
    if (c == AS_EMOJI && before > 0) now = 2;
    width->last = c;
    width->columns = now > before ? now : before;
    return width->columns - before;
}

int cli_width_of(const char *text, size_t len) {
    cli_width width = {0};
    int columns = 0;
    bool begins;
    for (size_t n; len > 0; text += n, len -= n) {
        n = cli_utf8_len(text, len);
        columns += cli_width_add(&width, n > 0 ? cli_utf8_number(text, n) : '?', &begins);
        if (n == 0) n = 1;
    }
    return columns;
}

/* Options and information whose structs get new members from version to version.
 *
 * Each such public struct begins with `size_t struct_bytes`: its size in the headers that its
 * caller was compiled with, or 0 for its size in version 0.1. So a caller may be older or newer
 * than the library. New members go to the end, and no struct ends with padding: an older caller's
 * padding would be read as the new member. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/status.h"

#include <mica/version.h>

#include <stddef.h>

/* Copies a caller's options to a struct of this library's size. Members that the caller's headers
 * do not have are zero. into's struct_bytes becomes `bytes`.
 *
 *  first   bytes in version 0.1
 *  from    NULL: all defaults
 *  errors  MICA_EINVAL a size that no version has; a member that this library does not have is not
 *          zero */
mica_status mc_options_copy(void *into, size_t bytes, size_t first, const void *from,
                            const char *name);

/* Copies information to a caller's struct: the members of version 0.1, whatever its struct_bytes
 * says, and later ones that it has room for. Members that this library does not have stay as they
 * are. Nothing for NULL. */
void mc_info_copy(void *into, size_t first, const void *from, size_t bytes);

#define MC_FIRST_BYTES(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Checks at compile time that `last` is the last member, without padding behind it, as long as
 * there is one version. Where pointers are smaller there may be padding: such a target keeps no
 * compatibility between versions. */
#define MC_CHECK_LAST(type, last)                                                         \
    ((void)sizeof(struct {                                                                \
        _Static_assert(sizeof(void *) < 8 || MICA_VERSION_NUMBER >= 200 ||                \
                           MC_FIRST_BYTES(type, last) == sizeof(type),                    \
                       #last " is not the last member of " #type ", or padding follows"); \
        int unused;                                                                       \
    }))

/* last: the last member in version 0.1. Until 0.2 a new member is to be named here; from then on it
 * stays the one named here when the struct grows. */
#define MC_OPTIONS_COPY(type, last, into, from) \
    (MC_CHECK_LAST(type, last),                 \
     mc_options_copy(into, sizeof(type), MC_FIRST_BYTES(type, last), from, #type))
#define MC_INFO_COPY(type, last, into, from) \
    (MC_CHECK_LAST(type, last), mc_info_copy(into, MC_FIRST_BYTES(type, last), from, sizeof(type)))

#endif

/* Macros of every public header: MICA_API exports a function, MICA_BEGIN and MICA_END give
 * declarations C linkage in C++.
 *
 * Structs of options and of information may get new members at their end. Each begins with
 * struct_bytes, its size in the headers that its caller was compiled with:
 *
 *     mica_model_options options = {.struct_bytes = sizeof options, .threads = 4};
 *     mica_model_info info = {.struct_bytes = sizeof info};
 *
 * 0 is its size in version 0.1: struct_bytes may be left out where no later member is used. So an
 * application and a library of different versions work together: options that the library does not
 * have must be zero, else they are MICA_EINVAL, and information that it does not have stays as it
 * was. Options may also be declared up to any member, by a binding: those behind struct_bytes are
 * zero. Of information all members of version 0.1 are filled in. Structs without struct_bytes get
 * no new members. */
#ifndef MICA_API_H
#define MICA_API_H

#if defined(__GNUC__)
#define MICA_API __attribute__((visibility("default")))
#else
#define MICA_API
#endif

#ifdef __cplusplus
#define MICA_BEGIN extern "C" {
#define MICA_END }
#else
#define MICA_BEGIN
#define MICA_END
#endif

#endif

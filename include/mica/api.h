/* Macros of every public header: MICA_API exports a function, MICA_BEGIN and MICA_END give
 * declarations C linkage in C++.
 *
 * Structs that begin with struct_bytes, most of those of options and of information, may get new
 * members at their end. struct_bytes is the size in the headers that the caller was compiled with:
 *
 *     mica_model_options options = {.struct_bytes = sizeof options, .threads = 4};
 *     mica_model_info info = {.struct_bytes = sizeof info};
 *
 * 0 is its size in version 0.1: struct_bytes may be left out where no later member is used. So an
 * application and a library of different versions work together: options that the library does not
 * have must be zero, else they are MICA_EINVAL, and information that it does not have stays as it
 * was. Options may also be declared up to any member, by a binding: those behind struct_bytes are
 * zero. Of information all members of version 0.1 are filled in. In what the library makes itself,
 * struct_bytes is the size in the library.
 *
 * In an array of such structs (mica_message) all elements have the size that the first one says.
 *
 * Structs without struct_bytes get no new members: elements of arrays (mica_input, mica_tool_call),
 * plain values (mica_array, mica_quant, mica_schedule), lists of results (mica_model_list,
 * mica_score_result), what a layer is made of (mica/nn.h), and the options of convolutions, windows
 * and pools (mica/signal.h). */
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

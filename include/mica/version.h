/* The version of these headers and of the linked library, and what that was built with.
 *
 *     if (mica_version_number() < 200) ...          // the library's, when the program runs
 *     if (!mica_has("onnx")) ...                    // was built without protobuf-c
 *
 * Threads: any. */
#ifndef MICA_VERSION_H
#define MICA_VERSION_H

#include <mica/api.h>

#include <stdbool.h>
#include <stddef.h>

MICA_BEGIN

/** The version of these headers. */
#define MICA_VERSION "0.1.0"
/** The same as a number that grows: 10000 major + 100 minor + patch. */
#define MICA_VERSION_NUMBER 100

/** The library's version, such as "0.1.0". */
MICA_API const char *mica_version(void);
/** The library's version as MICA_VERSION_NUMBER has it: 100 for "0.1.0". It differs from the macro
 *  where a program runs with another library than it was compiled for. */
MICA_API int mica_version_number(void);

/** Whether an optional part is in the library:
 *
 *      hub        downloads (mica/hub.h), by libcurl and OpenSSL
 *      serve      servers (mica/serve.h), by libmicrohttpd
 *      onnx       ONNX files (mica/onnx.h), by protobuf-c
 *      zlib       data compressed by gzip, also in npz files
 *      zstd       data compressed by zstd
 *      prefixes   caches of prompts that several processes share, by xxhash
 *      mlx        the device mlx, over Apple's MLX
 *      cuda       the device cuda with its kernels
 *      mlx_lm     the engine mlx_lm
 *
 *  hub, serve, mlx, cuda and mlx_lm load what they need when they are first used: mica_has tells
 *  how the library was built, an error of the call what this machine lacks.
 *
 *  feature  one of these names. Borrowed.
 *  returns  false also for NULL and for names that there are not. */
MICA_API bool mica_has(const char *feature);
/** The i-th name that mica_has knows, in the order above; NULL past the last. Static storage. */
MICA_API const char *mica_feature_name(size_t i);

MICA_END

#endif

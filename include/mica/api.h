/* Macros of every public header: MICA_API exports a function, MICA_BEGIN and MICA_END give
 * declarations C linkage in C++. */
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

/* The version of these headers and of the linked library. */
#ifndef MICA_VERSION_H
#define MICA_VERSION_H

#include <mica/api.h>

MICA_BEGIN

/** The version of these headers. */
#define MICA_VERSION "0.1.0"
/** The same as a number that grows: 10000 major + 100 minor + patch. */
#define MICA_VERSION_NUMBER 100

/** The library's version, such as "0.1.0". */
MICA_API const char *mica_version(void);

MICA_END

#endif

/* Functions that take a format, as printf does: MC_PRINTF(its number, the first argument's). */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#if defined(__GNUC__)
#define MC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MC_PRINTF(fmt, args)
#endif

#endif

/* What differs between object formats where the assembler puts a file into a library's constants:
 *
 *     __asm__(MC_EMBED_BEGIN "name:\n.incbin \"FILE\"\n" MC_EMBED_END); */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#ifdef _WIN32
#define MC_EMBED_BEGIN ".section .rdata,\"dr\"\n"
#define MC_EMBED_END ".text"
#else
#define MC_EMBED_BEGIN ".section .rodata\n"
#define MC_EMBED_END ".previous"
#endif

#endif

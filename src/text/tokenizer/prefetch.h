/* A hint that an address will be read soon; nothing if the compiler has no such hint. */
#ifndef TEXT_TOKENIZER_PREFETCH_H
#define TEXT_TOKENIZER_PREFETCH_H

static inline void mc_prefetch(const void *address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

#endif

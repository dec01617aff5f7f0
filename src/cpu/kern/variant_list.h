/* Variants of an instruction set's kernels, chosen by the processor's name: VARIANT(isa, fill).
 * fill overlays what mk_fill_<isa> has filled in, and changes no bits. */
#if defined(__x86_64__)
/* For one row of x: 16 rows of weights at once (the first variant), or rows in order, prefetched
 * once (second) or twice (third). For several rows of x: a row of weights in each lane; with the
 * second always, and with the third from 9 rows on, in each quarter of a register. */
VARIANT(avx512vnni, mk_int8_avx512vnni)
VARIANT(avx512vnni, mk_int8_avx512vnni_once)
VARIANT(avx512vnni, mk_int8_avx512vnni_twice)
#endif
#undef VARIANT

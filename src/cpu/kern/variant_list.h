/* Variants of an instruction set's kernels, chosen by the processor's name: VARIANT(isa, fill).
 * `fill` replaces kernels that mk_fill_<isa> set. A variant gives the same bits. */
#if defined(__x86_64__)
/* For one row of x, the first variant reads 16 rows of weights at once, the second and third read
 * them in sequential order and prefetch each line once (second) or twice (third). For several rows
 * of x, a lane holds a row of weights; in the second variant always, and in the third from 9 rows
 * on, a quarter of a register does. */
VARIANT(avx512vnni, mk_int8_avx512vnni)
VARIANT(avx512vnni, mk_int8_avx512vnni_once)
VARIANT(avx512vnni, mk_int8_avx512vnni_twice)
#endif
#undef VARIANT

/* Other ways of a set's kernels, which a machine's name chooses. WAY(isa, fill): fill overlays what
 * mk_fill_<isa> has filled in, and changes no bits. */
#if defined(__x86_64__)
/* One row of x: 16 rows of weights at once, or in the order in which they lie, asked for once or
 * twice; several rows: a row of weights in each lane, or, always with the second of these ways and
 * from 9 rows with the third, in each quarter of a register. */
VARIANT(avx512vnni, mk_int8_avx512vnni)
VARIANT(avx512vnni, mk_int8_avx512vnni_once)
VARIANT(avx512vnni, mk_int8_avx512vnni_twice)
#endif
#undef VARIANT

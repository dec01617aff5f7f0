/* Other ways of a set's kernels, which a machine's name chooses. WAY(isa, fill): fill overlays what mk_fill_<isa> has
 * filled in, and changes no bits. */
#if defined(__x86_64__)
WAY(avx512vnni, mk_fast_avx512vnni_in_order) /* rows of weights one after the other: Zen 5 */
#endif
#undef WAY

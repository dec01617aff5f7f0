/* Variants of multiplying pairs of bf16: VARIANT(isa, fill). isa_avx512vnni.c and isa_avx512bf16.c
 * choose one by the maker of an x86. fill overlays the kernels of its instruction set, or of a
 * weaker one. Their results differ. */
#if defined(__x86_64__)
VARIANT(avx512vnni, mk_attn_avx512vnni_int16)
VARIANT(avx512bf16, mk_attn_avx512bf16)
#endif
#undef VARIANT

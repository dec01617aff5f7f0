/* Ways of multiplying pairs of bf16, of which an x86's maker chooses one (isa_avx512vnni.c,
 * isa_avx512bf16.c): WAY(isa, fill). fill overlays what the instruction set, or a weaker one, has
 * filled in. Their results differ. */
#if defined(__x86_64__)
VARIANT(avx512vnni, mk_attn_avx512vnni_int16)
VARIANT(avx512bf16, mk_attn_avx512bf16)
#endif
#undef VARIANT

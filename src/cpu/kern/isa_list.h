/* Instruction sets, weakest first: each replaces kernels of the ones before it. ISA(name), with the
 * name as in MICA_CPU; mk_fill_<name> and mk_has_<name> are in isa_<name>.c. */
ISA(ref)
#if defined(__x86_64__)
ISA(avx2)
ISA(avxvnni)
ISA(avx512)
ISA(vnni256)
ISA(avx512vnni)
ISA(avx512bf16)
ISA(amx)
#elif defined(__aarch64__)
ISA(neon)
ISA(neon_dotprod)
ISA(neon_i8mm)
#endif
#undef ISA

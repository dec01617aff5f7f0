/* Files of kernels all of which a better instruction set replaces: BELOW(isa, file, better), the
 * weakest of these first. A build for a machine that has `better` leaves the file out
 * (MICA_ISAS=native): mk_<file> then sets no kernel. */
#if defined(__x86_64__)
BELOW(avx2, int8_avx2, avxvnni)
BELOW(avx2, attn_avx2, avx512)
BELOW(avx2, dense_avx2, avx512)
BELOW(avx2, elem_avx2, avx512)
BELOW(avx2, fft_avx2, avx512)
BELOW(avx2, row_avx2, avx512)
BELOW(avx2, scan_avx2, avx512)
BELOW(avx2, int8_avx2, vnni256)
BELOW(avxvnni, int8_avxvnni, vnni256)
BELOW(vnni256, int8_vnni256, avx512vnni)
BELOW(avx512vnni, attn_int16_scores, amx)
BELOW(avx512vnni, attn_int16_values, amx)
BELOW(avx512bf16, dense_avx512bf16, amx)
#endif
#undef BELOW

/* Ops and dtypes that golden records need and mica lacks: WANTED(group, op, issue). op may be a
 * dtype; "*" is any group. Records that need one are skipped and counted. A record that needs
 * anything else fails. So does a row for an op that exists by now. */
WANTED("*", "c64", "graph programs")
WANTED("*", "f64", "graph programs")
WANTED("convfft", "fft", "graph programs")
WANTED("convfft", "fft2", "graph programs")
WANTED("convfft", "fftn", "graph programs")
WANTED("convfft", "ifft", "graph programs")
WANTED("convfft", "ifft2", "graph programs")
WANTED("convfft", "ifftn", "graph programs")
WANTED("convfft", "irfft", "graph programs")
WANTED("convfft", "irfft2", "graph programs")
WANTED("convfft", "irfftn", "graph programs")
WANTED("convfft", "rfft", "graph programs")
WANTED("convfft", "rfft2", "graph programs")
WANTED("convfft", "rfftn", "graph programs")
WANTED("grad", "quantized_matmul_x", "the weights of the record")
WANTED("grad", "rfft_power", "graph programs")
WANTED("grad", "sdpa_mask", "the mask of the record")
WANTED("matmul", "gather_mm", "graph programs")
WANTED("promotion", "x * 1j", "graph programs")
WANTED("quant", "gather_qmm", "graph programs")

#undef WANTED

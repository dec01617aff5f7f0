# The parts of kcheck beside kcheck.c, for all of mica and for the kernels alone.
set(kcheck kbench.c kcheck_attn.c kcheck_conv.c kcheck_dense.c kcheck_elem.c kcheck_fft.c
  kcheck_int8.c kcheck_integer.c kcheck_quant.c kcheck_row.c kcheck_scan.c kjudge.c kmemory.c)

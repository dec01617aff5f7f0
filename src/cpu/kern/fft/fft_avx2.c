#define FILL mk_fft_avx2
#include "cpu/kern/fft/fft_tmpl.h"

#define FILL mk_fft_avx512
#include "cpu/kern/fft/fft_tmpl.h"

#define FILL mk_fft_ref
#include "cpu/kern/fft/fft_tmpl.h"

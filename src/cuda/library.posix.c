#include "cuda/driver.h"

const char mc_cuda_library[] = "libcuda.so.1";

#include "cuda/driver.h"

const char mc_cuda_library[] = "nvcuda.dll"; /* in the system's folder */

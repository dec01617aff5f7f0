#include "engine/mlx_lm_python.h"

const char mc_mlx_lm_python_name[] = "python3";
const char mc_mlx_lm_separator = ':';

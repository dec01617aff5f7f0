#include "engine/mlx_lm_python.h"

const char mc_mlx_lm_python_name[] = "python"; /* its installer has no python3.exe */
const char mc_mlx_lm_separator = ';';

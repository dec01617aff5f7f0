/* Every kernel: the lists of all families. Include this file with KERN defined; it is undefined at
 * the end. */
#include "cpu/kern/attn/attn_list.h"
#include "cpu/kern/conv/conv_list.h"
#include "cpu/kern/dense/dense_list.h"
#include "cpu/kern/elem/elem_list.h"
#include "cpu/kern/fft/fft_list.h"
#include "cpu/kern/int8/int8_list.h"
#include "cpu/kern/integer/integer_list.h"
#include "cpu/kern/quant/quant_list.h"
#include "cpu/kern/row/row_list.h"
#include "cpu/kern/scan/scan_list.h"
#undef KERN

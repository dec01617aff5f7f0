/* Every kernel: the lists of all families. Include this file with KERN defined; it is undefined at the
 * end. */
#include "cpu/kern/attn_list.h"
#include "cpu/kern/dense_list.h"
#include "cpu/kern/fast_list.h"
#include "cpu/kern/quant_list.h"
#include "cpu/kern/row_list.h"
#undef KERN

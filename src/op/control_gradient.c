/* Gradients of control flow. */
#include "op/control.h"
#include "op/gradient.h"

MC_NO_GRADIENT(if, "branches have none yet");
MC_NO_GRADIENT(while, "loops have none yet");
MC_NO_GRADIENT(scan, "scans have none yet");

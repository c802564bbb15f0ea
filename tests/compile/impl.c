/* The implementation unit: what a user's one implementing file looks like. Compiled as C and as C++. */
#define PU_IMPLEMENTATION
#include "pu.h"

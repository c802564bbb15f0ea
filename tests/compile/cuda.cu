/* The implementation unit with its CUDA side. */
#define PU_CUDA
#include "impl.c"

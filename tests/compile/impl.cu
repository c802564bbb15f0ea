/* The implementation unit as nvcc sees it. */
#include "impl.c"

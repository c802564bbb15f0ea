/* The implementation unit as a C++ file, for the check of exported names. */
#include "impl.c"

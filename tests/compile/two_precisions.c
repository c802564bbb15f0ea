/* Refused: the header a second time, in the other precision. The names of the first would mean the types of the second. */
#include "pu.h"
#ifdef PU_FLOAT
#undef PU_FLOAT
#else
#define PU_FLOAT
#endif
#include "pu.h"

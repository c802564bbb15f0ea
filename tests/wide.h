/* wide.h - numbers of at least 64 bits for references: 113 bits where the compiler has them. */
#ifndef WIDE_H
#define WIDE_H

#include <float.h>

#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 wide;
#define WIDE_DIGITS 113
#else
typedef long double wide;
#define WIDE_DIGITS LDBL_MANT_DIG
#endif

#endif

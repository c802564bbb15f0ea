/* Compiled twice, plainly and with PU_FLOAT; both objects end up in one program with both_main.c. */
#define PU_IMPLEMENTATION
#include "pu.h"

#include <string.h>

#include "link.h"

#ifdef PU_FLOAT
int both_float(void)
#else
int both_double(void)
#endif
{
    return strcmp(pu_status_text((pu_status)0), "ok") != 0 || strcmp(pu_version(), PU_VERSION) != 0;
}

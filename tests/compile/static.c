/* A unit with a private copy of the library: it must neither warn about what it does not use nor export a name. */
#define PU_STATIC
#define PU_IMPLEMENTATION
#include "pu.h"

#include <string.h>

#include "link.h"

int pu_test_static(void)
{
    return strcmp(pu_status_text((pu_status)0), "ok") != 0;
}

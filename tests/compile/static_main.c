/* Has a private copy of its own and calls into static.c, which has another. */
#define PU_STATIC
#define PU_IMPLEMENTATION
#include "pu.h"

#include <string.h>

#include "link.h"

int main(void)
{
    return strcmp(pu_version(), PU_VERSION) != 0 || pu_test_static();
}

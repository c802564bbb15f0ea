/* A C user; linked with users_cpp.cpp and impl.c. */
#include "pu.h"

#include <string.h>

#include "link.h"

int main(void)
{
    if (strcmp(pu_version(), PU_VERSION) != 0) return 1;
    if (strcmp(pu_status_text((pu_status)0), "ok") != 0) return 2;
    return users_cpp() ? 3 : 0;
}

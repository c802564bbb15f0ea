// A C++ user of the library that impl.c holds.
#include "pu.h"

#include <string>

#include "link.h"

int users_cpp(void)
{
    return std::string(pu_status_text(static_cast<pu_status>(0))) != "ok" ||
           std::string(pu_version()) != PU_VERSION;
}

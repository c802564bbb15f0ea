/* A user that sees declarations only, included twice as happens in large programs. */
#include "pu.h"
#include "pu.h"

int main(void)
{
    return pu_status_text((pu_status)0)[0] != 'o';
}

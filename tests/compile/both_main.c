/* Uses the double and the float build of the library in one program. */
#include "link.h"

int main(void)
{
    return both_double() || both_float();
}

/* chance.h - random choices of tests: a function of chance_state, which they set, not of the library's generator. Include after
   pu_test.h and test_common.h. */
#ifndef CHANCE_H
#define CHANCE_H

static uint64_t chance_state;

static uint64_t chance_bits(void)
{
    chance_state += UINT64_C(0x9e3779b97f4a7c15);
    return tc_hash(chance_state);
}

/* in [0, 1) */
PU_TEST_FN double uniform(void) { return (double)(chance_bits() >> 11) / 9007199254740992.0; }
PU_TEST_FN double between(double low, double high) { return low + (high - low) * uniform(); }
PU_TEST_FN int pick(int n) { return (int)(chance_bits() % (uint64_t)n); }
PU_TEST_FN int often(double probability) { return uniform() < probability; }

PU_TEST_FN double normal(void)
{
    double radius = sqrt(-2 * log(1 - uniform()));
    return radius * cos(6.283185307179586 * uniform());
}

#endif

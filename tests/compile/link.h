/* What the units of the link tests call of each other. Each function returns 0 when all is well. */
#ifndef PU_TEST_LINK_H
#define PU_TEST_LINK_H

#ifdef __cplusplus
extern "C" {
#endif

int users_cpp(void);      /* users_cpp.cpp */
int both_double(void);    /* both_user.c */
int both_float(void);     /* both_user.c with PU_FLOAT */
int pu_test_static(void); /* static.c */

#ifdef __cplusplus
}
#endif

#endif /* PU_TEST_LINK_H */

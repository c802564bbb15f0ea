/* pu_test.h - what the unit tests share: greatest, its summary in one line, and comparisons of numbers.

   A test program includes this file first (after `#define PU_IMPLEMENTATION` if it wants private functions) and ends
   its main() with PU_TEST_MAIN_END():

       #include "pu_test.h"

       TEST one_is_one(void)
       {
           PU_CHECK_CLOSE(1, 1, 0);
           PASS();
       }

       GREATEST_MAIN_DEFS();

       int main(int argc, char **argv)
       {
           GREATEST_MAIN_BEGIN();
           RUN_TEST(one_is_one);
           PU_TEST_MAIN_END();
       }
*/
#ifndef PU_TEST_H
#define PU_TEST_H

#ifndef PU_VERSION
#include "pu.h"
#endif

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include <greatest.h>

/* 1 where AddressSanitizer slows everything down: loops over many cases take fewer. */
#if defined(__SANITIZE_ADDRESS__)
#define PU_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PU_TEST_SANITIZED 1
#endif
#endif
#ifndef PU_TEST_SANITIZED
#define PU_TEST_SANITIZED 0
#endif

#if defined(__GNUC__)
#define PU_TEST_FN __attribute__((unused)) static
#else
#define PU_TEST_FN static
#endif

/* Rounding unit of pu_real, and a number that depends on the precision of the build. */
#ifdef PU_FLOAT
#define PU_TEST_EPS                         ((double)FLT_EPSILON)
#define PU_TEST_PICK(for_double, for_float) (for_float)
#else
#define PU_TEST_EPS                         DBL_EPSILON
#define PU_TEST_PICK(for_double, for_float) (for_double)
#endif

/* The message of the last comparison that failed; greatest keeps a pointer to it until it prints. */
static char pu_test_message[512];

/* 1 when |got - want| <= tol; otherwise, and with any NaN, 0 and a message. */
PU_TEST_FN int pu_test_close(const char *text, double got, double want, double tol)
{
    double difference = fabs(got - want);
    if (difference <= tol) return 1;
    snprintf(pu_test_message, sizeof pu_test_message,
             "%.200s: got %.17g, want %.17g, differs by %.3g, allowed %.3g", text, got, want,
             difference, tol);
    return 0;
}

PU_TEST_FN int pu_test_close_rel(const char *text, double got, double want, double tol)
{
    return pu_test_close(text, got, want, tol * fabs(want));
}

/* max|got - want| / max|want|, infinite when anything is not finite, 0 for n = 0. */
PU_TEST_FN double pu_test_relerr_n(size_t n, const pu_real *got, const pu_real *want)
{
    double error = 0, scale = DBL_MIN;
    size_t i;
    for (i = 0; i < n; i++) {
        double g = (double)got[i], w = (double)want[i];
        if (!(fabs(g) <= DBL_MAX) || !(fabs(w) <= DBL_MAX)) return HUGE_VAL;
        if (fabs(g - w) > error) error = fabs(g - w);
        if (fabs(w) > scale) scale = fabs(w);
    }
    return error / scale;
}

#define pu_test_relerr(n, got, want) pu_test_relerr_n((size_t)(n), got, want)

PU_TEST_FN int pu_test_vector_close(const char *text, size_t n, const pu_real *got,
                                    const pu_real *want, double tol)
{
    double error = pu_test_relerr_n(n, got, want);
    if (error <= tol) return 1;
    snprintf(pu_test_message, sizeof pu_test_message, "%.200s: relative error %.3g, allowed %.3g",
             text, error, tol);
    return 0;
}

/* Fail the test unless |got - want| <= tol. Any arithmetic type; each argument is evaluated once. */
#define PU_CHECK_CLOSE(got, want, tol)                                                             \
    GREATEST_ASSERTm(pu_test_message,                                                              \
                     pu_test_close(#got, (double)(got), (double)(want), (double)(tol)))

/* The same with the tolerance relative to |want|. */
#define PU_CHECK_REL(got, want, tol)                                                               \
    GREATEST_ASSERTm(pu_test_message,                                                              \
                     pu_test_close_rel(#got, (double)(got), (double)(want), (double)(tol)))

/* Fail the test unless the vectors agree: pu_test_relerr(n, got, want) <= tol. */
#define PU_CHECK_VECTOR(n, got, want, tol)                                                         \
    GREATEST_ASSERTm(pu_test_message,                                                              \
                     pu_test_vector_close(#got, (size_t)(n), got, want, (double)(tol)))

/* Prints greatest's report and, last, the line build.sh reads. The program fails if a test failed or none ran. */
PU_TEST_FN int pu_test_finish(void)
{
    struct greatest_report_t report;
    if (GREATEST_LIST_ONLY()) return 0;
    GREATEST_PRINT_REPORT();
    greatest_get_report(&report);
    printf("%u passed, %u failed", report.passed, report.failed);
    if (report.skipped > 0) printf(", %u skipped", report.skipped);
    printf("\n");
    return report.failed > 0 || report.passed + report.skipped == 0;
}

#define PU_TEST_MAIN_END() return pu_test_finish()

#endif /* PU_TEST_H */

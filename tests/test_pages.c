/* What the examples draw and write on pages: names of users, numbers, pictures, thinned series, innovations. */
#define _POSIX_C_SOURCE 200809L /* the clock in program.h */
#include "pu_test.h"
#include "../examples/common/program.h"
#include "../examples/common/fit.h"
#include "../examples/common/series.h"
#include "../examples/common/ar.h"
#include "../examples/common/estimates.h"
#include "../examples/common/picture.h"
#include "../examples/common/series_report.h"

static int comes_out_as(const char *name, int most, const char *want)
{
    char got[100];
    svg_safe(got, sizeof got, name, most);
    if (!strcmp(got, want)) return 1;
    snprintf(pu_test_message, sizeof pu_test_message, "%.40s: got \"%.80s\", want \"%.80s\"", name, got, want);
    return 0;
}

#define NAME(name, most, want) ASSERTm(pu_test_message, comes_out_as(name, most, want))

TEST names_become_text_and_no_markup(void)
{
    NAME("", 9, "");
    NAME("a<b>&\"c'", 20, "a&lt;b&gt;&amp;&quot;c'");
    NAME("\xc3\xa9t\xc3\xa9", 3, "\xc3\xa9t\xc3\xa9");
    NAME("\xc3\xa9t\xc3\xa9", 2, "\xc3\xa9t..");
    NAME("\xf0\x9f\x98\x80", 9, "\xf0\x9f\x98\x80");
    NAME("a\001b\177", 9, "a?b?");
    NAME("\xc3", 9, "?");                    /* cut off */
    NAME("\xc0\xaf", 9, "??");               /* longer than need be */
    NAME("\xe0\x80\xaf", 9, "???");
    NAME("\xed\xa0\x80", 9, "???");          /* a surrogate */
    NAME("\xef\xbf\xbe", 9, "???");          /* not in XML */
    NAME("\xf4\x90\x80\x80", 9, "????");     /* beyond Unicode */
    PASS();
}

TEST random_bytes_become_text(void)
{
    uint32_t state = 12345;
    for (int turn = 0; turn < 20000; turn++) {
        char name[24], got[60];
        const char *at = got;
        for (int i = 0; i < 23; i++) state = state * 1664525u + 1013904223u, name[i] = (char)(state >> 24 | (state >> 24 == 0));
        name[23] = 0;
        svg_safe(got, sizeof got, name, 30); /* more than there is room for */
        ASSERT(strlen(got) < sizeof got);
        ASSERT(!strpbrk(got, "<>\""));
        while (*at) { /* every & begins an entity, every character is one */
            char one[8];
            if (*at == '&') ASSERT(!strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) || !strncmp(at, "&gt;", 4) || !strncmp(at, "&quot;", 6));
            ASSERT(*at == '?' || svg_character(&at, one) > 1 || one[0] != '?');
            if (*at == '?') at++;
        }
    }
    PASS();
}

TEST numbers_are_written_as_people_do(void)
{
    ASSERT_STR_EQ("11410", report_digits(4, 11410.4));
    ASSERT_STR_EQ("0.0123", report_digits(3, 0.01234));
    ASSERT_STR_EQ("-4.20", report_digits(3, -4.2));
    ASSERT_STR_EQ("1000", report_digits(3, 1000));
    ASSERT_STR_EQ("0", report_digits(3, 0));
    ASSERT_STR_EQ("1.2e-09", report_digits(2, 1.2e-9));
    ASSERT_STR_EQ("-", report_digits(3, (double)NAN));
    ASSERT_STR_EQ("-", report_digits(3, HUGE_VAL));
    PASS();
}

static unsigned long big_endian(const unsigned char *at)
{
    return (unsigned long)at[0] << 24 | (unsigned long)at[1] << 16 | (unsigned long)at[2] << 8 | at[3];
}

TEST pictures_by_a_scale_have_their_chunks(void)
{
    const pu_real value[6] = {0, 1, 2, 3, (pu_real)NAN, 5};
    static const char *const names[] = {"IHDR", "PLTE", "IDAT", "IEND"};
    picture p = picture_new(3, 2);
    picture_bytes png;
    size_t at = 8;
    p.scale = &picture_depth;
    picture_map(&p, value, 0, 4);
    ASSERT(p.at[0] == 0 && p.at[2] == 127 && p.at[4] == PICTURE_NONE && p.at[5] == 254);
    png = picture_png(&p);
    for (int i = 0; i < 4; i++) {
        ASSERT(at + 12 <= png.length && !memcmp(png.at + at + 4, names[i], 4));
        if (i == 1) {
            ASSERT_EQ(768, (int)big_endian(png.at + at));
            ASSERT(!memcmp(png.at + at + 8, picture_depth.stop[0], 3));
            ASSERT(!memcmp(png.at + at + 8 + 3 * 254, picture_depth.stop[PICTURE_STOPS - 1], 3));
            ASSERT(!memcmp(png.at + at + 8 + 3 * 255, picture_depth.none, 3));
        }
        at += 12 + big_endian(png.at + at);
    }
    ASSERT_EQ(png.length, at);
    free(png.at);
    picture_free(&p);
    PASS();
}

/* A file of text, to be freed. */
static char *text_of(FILE *file)
{
    const long length = ftell(file);
    char *text = (char *)need_bytes((size_t)length + 1);
    rewind(file);
    if (fread(text, 1, (size_t)length, file) != (size_t)length) text[0] = 0;
    fclose(file);
    return text;
}

TEST long_series_are_thinned_out_and_keep_their_spikes(void)
{
    static series s;
    series_view view;
    svg_plot p;
    double *curve;
    char *text, spike[40];
    series_default(&s);
    series_alloc(&s, 1, 200000);
    for (pu_int t = 0; t < s.length; t++) s.y[t] = (pu_real)(t % 7), s.mean[t] = 3, s.variance[t] = 4;
    s.y[123456] = 100;
    curve = (double *)need_bytes(3 * sizeof(double) * (size_t)s.length);
    series_curve(&s, 0, curve);
    memset(&p, 0, sizeof p);
    p.file = tmpfile(), p.title = p.y_label = "y";
    ASSERT(p.file);
    view = series_panel(&s, &p, curve, 0, 0, s.length, NULL);
    ASSERT_EQ(667, (int)view.each);
    ASSERT_EQ(200000, view.seen);
    snprintf(spike, sizeof spike, " %.1fV", svg_y(&p, 100) - 0.5);
    text = text_of(p.file);
    ASSERT(strstr(text, spike));
    ASSERT(strlen(text) < 60000);
    free(text), free(curve);
    series_free(&s);
    PASS();
}

/* Of an autoregression, and of a system with two outputs, with gaps. */
TEST innovations_have_the_likelihood_of_the_model(void)
{
    enum { T = 60, P = 3 };
    const double tolerance = 2000 * (sizeof(pu_real) == sizeof(float) ? 1.2e-7 : 2.3e-16) * T; /* sums of 2 T terms */
    double room[3 * P * P + P], y[2 * T], e[2 * T], nll = 0;
    pu_real theta[20], data[2 * T];
    pu_options exact;
    pu_model model;
    pu_data d;
    pu_report told;
    innovations_system m;
    pu_normals(3, 0, 0, 0, 3, 0, 2 * T, data);
    for (int i = 0; i < 2 * T; i += 7) data[i] = (pu_real)NAN;
    for (int i = 0; i < 2 * T; i++) y[i] = (double)data[i];
    memset(&exact, 0, sizeof exact), memset(&model, 0, sizeof model);
    exact.kind = PU_EXACT, exact.engine = PU_BANDED;

    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&model, T, P, &told));
    theta[0] = PU_R(0.9), theta[1] = PU_R(-0.4), theta[2] = PU_R(0.2), theta[3] = PU_R(-0.5), theta[4] = PU_R(-1);
    d = pu_data_nan(1, T, data);
    ASSERT_EQ(PU_OK, pu_model_nll(&model, theta, &d, &exact, NULL, &nll, NULL, &told));
    memset(room, 0, sizeof room);
    m = innovations_ar(pu_model_get_ar(&model), model.lgm.psi, room);
    PU_CHECK_CLOSE(innovations(&m, T, y, e), nll, tolerance);
    ASSERT(e[0] != e[0] && e[1] == e[1]);
    pu_model_free(&model);

    ASSERT_EQ(PU_OK, pu_model_dynamic_factors(&model, T, 2, 2, PU_SSM_STATIONARY, &told));
    for (pu_int i = 0; i < model.params; i++) theta[i] = (pu_real)(0.3 * cos(3.0 * (double)i));
    for (pu_int i = model.params - 4; i < model.params - 2; i++) theta[i] = 0; /* d, which is no part of the system */
    d = pu_data_nan(1, 2 * T, data);
    ASSERT_EQ(PU_OK, pu_model_nll(&model, theta, &d, &exact, NULL, &nll, NULL, &told));
    {
        const pu_ssm *ssm = pu_model_get_ssm(&model);
        double A[4], Q[4], C[4];
        for (int i = 0; i < 4; i++) A[i] = (double)ssm->A[i], Q[i] = (double)ssm->Q[i], C[i] = (double)theta[4 + i];
        m.S = m.outputs = 2, m.A = A, m.Q = Q, m.C = C, m.P0 = ssm->P0, m.psi = model.lgm.psi;
        PU_CHECK_CLOSE(innovations(&m, T, y, e), nll, tolerance);
    }
    pu_model_free(&model);
    PASS();
}

TEST chance_is_told_from_a_model_that_misses_something(void)
{
    enum { T = 4000 };
    static double e[T];
    innovations_check c;
    pu_real x[T];
    pu_normals(5, 0, 0, 0, 3, 0, T, x);
    for (int t = 0; t < T; t++) e[t] = t % 9 ? (double)x[t] : (double)NAN;
    innovations_look(1, T, e, &c);
    ASSERT_EQ(T - 445, c.count);
    ASSERT(!innovations_bad(&c) && c.lags == INNOVATIONS_LAGS);
    for (int t = T - 1; t > 0; t--) e[t] += t % 9 == 1 ? 0 : 0.5 * e[t - 1];
    innovations_look(1, T, e, &c);
    ASSERT(innovations_bad(&c) && c.worst == 1);
    PU_CHECK_CLOSE(innovations_largest(1), 0.6744897501960817, 1e-12); /* the quartile of N(0, 1) */
    innovations_look(1, 0, e, &c);
    ASSERT(c.count == 0 && c.lags == 0 && !innovations_bad(&c));
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(names_become_text_and_no_markup);
    RUN_TEST(random_bytes_become_text);
    RUN_TEST(numbers_are_written_as_people_do);
    RUN_TEST(pictures_by_a_scale_have_their_chunks);
    RUN_TEST(long_series_are_thinned_out_and_keep_their_spikes);
    RUN_TEST(innovations_have_the_likelihood_of_the_model);
    RUN_TEST(chance_is_told_from_a_model_that_misses_something);
    PU_TEST_MAIN_END();
}

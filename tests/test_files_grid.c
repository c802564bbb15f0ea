/* grid.h of the examples: pictures and grids of text, what it reads, and above all what it refuses. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "pu_test.h"
#include "../examples/common/program.h"
#include "../examples/common/grid.h"

static grid table;
static char why[GRID_WHY];

static int parse(const char *text, size_t length)
{
    grid_free(&table);
    why[0] = 0;
    return grid_parse(text, length, &table, why);
}

static int refused(const char *text, size_t length, const char *words)
{
    if (parse(text, length) || table.value || !strstr(why, words)) {
        snprintf(pu_test_message, sizeof pu_test_message, "%.60s: got \"%.150s\", want \"%.60s\"", text, why, words);
        return 0;
    }
    return 1;
}

#define READ(text) ASSERTm(why, parse(text, strlen(text)))
#define REFUSED(text, words) ASSERTm(pu_test_message, refused(text, strlen(text), words))

TEST grids_of_text_are_read_with_their_gaps(void)
{
    static const char *const same[] = {"1,2,NA\n4,,-6.5\n", "1;2;NaN\r\n4;;-6.5", "1\t2\t?\n\n4\t\t-6.5\n\n", " 1 2  NA\n4 nan -6.5 \n",
                                       "\"1\",2, NA \n4,null,-6.5"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        READ(same[i]);
        ASSERT(table.rows == 2 && table.cols == 3 && !table.picture);
        PU_CHECK_CLOSE(table.value[0], 1, 0);
        PU_CHECK_CLOSE(table.value[3], 4, 0);
        PU_CHECK_CLOSE(table.value[5], -6.5, 0);
        ASSERT(isnan((double)table.value[2]) && isnan((double)table.value[4]));
    }
    READ("7");
    ASSERT(table.rows == 1 && table.cols == 1);
    READ("1,\n,2\n"); /* an empty cell at the end of a line is one */
    ASSERT(table.cols == 2 && isnan((double)table.value[1]));
    PASS();
}

TEST pictures_of_both_kinds_are_read(void)
{
    static const char wide[] = "P5 2 1 1000\n\003\350\000\001";
    READ("P2\n# a comment\n3 2\n255\n0 1 2\n3 4 255\n");
    ASSERT(table.rows == 2 && table.cols == 3 && table.picture && table.white == 255);
    PU_CHECK_CLOSE(table.value[5], 255, 0);
    READ("P5\n3 1 255\nAB ");
    PU_CHECK_CLOSE(table.value[1], 66, 0);
    ASSERTm(why, parse(wide, sizeof wide - 1));
    PU_CHECK_CLOSE(table.value[0], 1000, 0);
    PU_CHECK_CLOSE(table.value[1], 1, 0);
    PASS();
}

TEST what_is_neither_is_refused_with_the_fix(void)
{
    REFUSED("", "empty");
    REFUSED("\n\n", "empty");
    REFUSED("x,y\n1,2\n", "no number, line 1, cell 1; a gap");
    REFUSED("1,2\n3,4,5\n", "not as many cells as the lines before, line 2");
    REFUSED("1 2\n3\n", "not as many");
    REFUSED("1,2\n3,1e999\n", "line 2, cell 2");
    REFUSED("P6\n1 1 255\nabc", "convert");
    REFUSED("P5\n3 3 255\nAB", "cut off");
    REFUSED("P2\n2 1 255\n1", "cut off");
    REFUSED("P2\n2 1 9\n1 11", "above its largest");
    REFUSED("P5\n0 3 255\nAB", "sizes");
    REFUSED("P5\n99999999999 3 255\nAB", "sizes");
    REFUSED("P5\n2 1 0\nAB", "largest value");
    ASSERTm(pu_test_message, refused("1,2\0003", 5, "neither"));
    ASSERTm(pu_test_message, refused("\211PNG\r\n\032\n", 8, "convert"));
    PASS();
}

/* What is written is read again. */
TEST what_is_written_is_read_again(void)
{
    const pu_real value[6] = {0, PU_R(0.5), 1, PU_R(0.25), PU_R(NAN), PU_R(0.75)};
    char name[] = "/tmp/pu_grid_XXXXXX", path[40];
    const int file = mkstemp(name);
    ASSERT(file >= 0);
    close(file);
    for (int pgm = 0; pgm < 2; pgm++) {
        snprintf(path, sizeof path, "%s%s", name, pgm ? ".pgm" : ".csv");
        grid_write(path, 2, 3, value, 0, 1);
        grid_free(&table);
        ASSERTm(why, grid_read(path, &table, why));
        remove(path);
        ASSERT(table.rows == 2 && table.cols == 3 && table.picture == pgm);
        for (int i = 0; i < 6; i++) {
            if (i == 4) ASSERT(pgm ? table.value[4] == 0 : isnan((double)table.value[4]));
            else PU_CHECK_CLOSE((double)table.value[i] / (pgm ? 255 : 1), value[i], 0.003);
        }
    }
    remove(name);
    PASS();
}

/* Any bytes at all: a grid that is consistent, or a reason. */
TEST random_bytes(void)
{
    static const char common[] = "0123456789.-eE,,,,;\t\"\n\n\r#NAa ";
    static const uint32_t key[2] = {7, 11};
    int accepted = 0;
    for (int trial = 0; trial < 20000; trial++) {
        uint32_t counter[4] = {0, 0, 0, 0}, r[4];
        const size_t length = (size_t)(trial % 61);
        char *text = (char *)malloc(length + 1); /* of just that size, for the sanitizer */
        int ok;
        ASSERT(text);
        counter[0] = (uint32_t)trial;
        for (size_t i = 0; i < length; i++) {
            counter[1] = (uint32_t)i;
            pu_philox(key, counter, r);
            text[i] = trial % 8 ? common[r[0] % (sizeof common - 1)] : (char)(r[0] & 255u);
            if (trial % 3 == 0 && i < 3) text[i] = (trial % 2 ? "P2\n" : "P5\n")[i];
            if (trial % 6 == 1 && i < 12) text[i] = "P2\n2 2\n9\n1 2"[i];
        }
        ok = parse(text, length);
        free(text);
        accepted += ok;
        if (!ok) ASSERT(why[0] && !table.value);
        for (pu_int i = 0; ok && i < table.rows * table.cols; i++) ASSERT(!isinf((double)table.value[i]));
    }
    ASSERT(accepted > 100);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(grids_of_text_are_read_with_their_gaps);
    RUN_TEST(pictures_of_both_kinds_are_read);
    RUN_TEST(what_is_neither_is_refused_with_the_fix);
    RUN_TEST(what_is_written_is_read_again);
    RUN_TEST(random_bytes);
    grid_free(&table);
    PU_TEST_MAIN_END();
}

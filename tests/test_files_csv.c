/* csv.h of the examples: what it reads, and above all what it refuses. */
#include "pu_test.h"

#include "../examples/common/csv.h"

static csv_table table;
static char why[CSV_WHY];

static int parse(const char *text, char separator, int header, const char *columns)
{
    csv_format format = {',', 1, NULL, 0, 0};
    format.separator = separator, format.header = header, format.columns = columns;
    csv_free(&table);
    why[0] = 0;
    return csv_parse(text, strlen(text), &format, &table, why);
}

/* refused, with these words in the message, and nothing left behind */
static int refused(const char *text, const char *columns, const char *words)
{
    if (parse(text, ',', 1, columns) || table.value || table.rows || table.columns || !strstr(why, words)) {
        snprintf(pu_test_message, sizeof pu_test_message, "%.60s: got \"%.150s\", want \"%.60s\"", text, why, words);
        return 0;
    }
    return 1;
}

#define CHECK_REFUSED(text, columns, words) ASSERTm(pu_test_message, refused(text, columns, words))
#define VALUE(column, row) ((double)table.value[(column) * table.rows + (row)])

TEST plain(void)
{
    ASSERTm(why, parse("a,b,c\n1,2,3\n-4.5e1,.5,+6.\n", ',', 1, NULL));
    ASSERT_EQ(3, table.columns);
    ASSERT_EQ(2, table.rows);
    ASSERT_STR_EQ("b", table.name[1]);
    PU_CHECK_CLOSE(VALUE(0, 0), 1, 0);
    PU_CHECK_CLOSE(VALUE(0, 1), -45, 0);
    PU_CHECK_CLOSE(VALUE(1, 1), 0.5, 0);
    PU_CHECK_CLOSE(VALUE(2, 0), 3, 0);
    PU_CHECK_CLOSE(VALUE(2, 1), 6, 0);
    PASS();
}

TEST gaps(void)
{
    csv_format format = {',', 1, NULL, 1, -999.99};
    const char *text = "a,b\n,NA\n NaN , nan\n-999.99,-999\n";
    csv_free(&table);
    ASSERTm(why, csv_parse(text, strlen(text), &format, &table, why));
    ASSERT_EQ(3, table.rows);
    ASSERT(isnan(VALUE(0, 0)) && isnan(VALUE(1, 0)) && isnan(VALUE(0, 1)) && isnan(VALUE(1, 1)) && isnan(VALUE(0, 2)));
    PU_CHECK_CLOSE(VALUE(1, 2), -999, 0); /* near the mark is not the mark */
    ASSERTm(why, parse("x\n1\n\n3", ',', 1, NULL)); /* one column: an empty line is an empty cell */
    ASSERT_EQ(3, table.rows);
    ASSERT(isnan(VALUE(0, 1)));
    PU_CHECK_CLOSE(VALUE(0, 2), 3, 0);
    ASSERTm(why, parse("x\n1\n\n3\n\n\r\n\n", ',', 1, NULL)); /* but not at the end of the file */
    ASSERT_EQ(3, table.rows);
    ASSERTm(why, parse("a,b\n1,2\n\n", ',', 1, NULL));
    ASSERT_EQ(1, table.rows);
    PASS();
}

TEST choice_of_columns(void)
{
    ASSERTm(why, parse("t;x;y\nmonday;1;2\ntuesday;3;4\n", ';', 1, "y,x"));
    ASSERT_EQ(2, table.columns);
    PU_CHECK_CLOSE(VALUE(0, 1), 4, 0);
    PU_CHECK_CLOSE(VALUE(1, 0), 1, 0);
    ASSERT_STR_EQ("y", table.name[0]);
    ASSERTm(why, parse("a\tb\n1\t2\n", '\t', 1, "b"));
    PU_CHECK_CLOSE(VALUE(0, 0), 2, 0);
    ASSERTm(why, parse("1,2\n3,4\n", ',', 0, "2")); /* no header: by number, and the first line is data */
    ASSERT_EQ(2, table.rows);
    PU_CHECK_CLOSE(VALUE(0, 0), 2, 0);
    PU_CHECK_CLOSE(VALUE(0, 1), 4, 0);
    ASSERTm(why, parse("1\t\n\t4\n", '\t', 0, NULL)); /* a tab that separates is no space */
    ASSERT(isnan(VALUE(1, 0)) && isnan(VALUE(0, 1)));
    PU_CHECK_CLOSE(VALUE(1, 1), 4, 0);
    PASS();
}

TEST dress(void)
{
    ASSERTm(why, parse("\xef\xbb\xbf# made by hand\r\n\"a, \"\"b\"\"\",c\r\n# half way\r\n \"1\" , 2 \r\n", ',', 1, NULL));
    ASSERT_EQ(1, table.rows);
    ASSERT_STR_EQ("a, \"b\"", table.name[0]);
    PU_CHECK_CLOSE(VALUE(0, 0), 1, 0);
    PU_CHECK_CLOSE(VALUE(1, 0), 2, 0);
    ASSERTm(why, parse("\xef\xbb\xbf" "5,6\n", ',', 0, NULL));
    PU_CHECK_CLOSE(VALUE(0, 0), 5, 0);
    PASS();
}

TEST refusals(void)
{
    CHECK_REFUSED("", NULL, "no rows");
    CHECK_REFUSED("a,b\n", NULL, "no rows");
    CHECK_REFUSED("# only\n# comments\n", NULL, "no rows");
    CHECK_REFUSED("a,b\n1,2\n3\n", NULL, "line 3: fewer cells");
    CHECK_REFUSED("a,b\n1,2,3\n", NULL, "line 2: more cells");
    CHECK_REFUSED("a,b\n1,2\n\n3,4\n", NULL, "line 3: fewer cells");
    CHECK_REFUSED("a,b\n1,2\n3,x4\n", NULL, "line 3, column 2: not a number: x4");
    CHECK_REFUSED("# c\na,b\n1,2e\n", NULL, "line 3, column 2: not a number: 2e");
    CHECK_REFUSED("a\n1 2\n", NULL, "not a number");
    CHECK_REFUSED("a\n0x10\n", NULL, "not a number");
    CHECK_REFUSED("a\ninf\n", NULL, "not a number");
    CHECK_REFUSED("a\nn/a\n", NULL, "not a number");
    CHECK_REFUSED("a\n1e999\n", NULL, "not a number");
    CHECK_REFUSED("a\n-\n", NULL, "not a number");
    CHECK_REFUSED("a\n\"1\n", NULL, "line 2, column 1: quotes");
    CHECK_REFUSED("a\n\"1\"2\n", NULL, "line 2, column 1: quotes");
    CHECK_REFUSED("a\n1\"2\"\n", NULL, "line 2, column 1: quotes");
    CHECK_REFUSED("a,b\n1,2\n", "c", "no column c");
    CHECK_REFUSED("a,b\n1,2\n", "a,a", "wanted twice");
    CHECK_REFUSED("a,a\n1,2\n", "a", "two columns");
    CHECK_REFUSED("a,b\n1,2\n", "a,", "no column");
    CHECK_REFUSED("a;b\n1;2\n", "a", "no column a"); /* the wrong separator */
    /* what to try */
    CHECK_REFUSED("date,x\n2001-01-01,2\n", NULL, "--columns");
    CHECK_REFUSED("a;b\n1;2\n", NULL, "--separator semicolon");
    CHECK_REFUSED("a;b\n1;2\n", "b", "--separator semicolon");
    CHECK_REFUSED("a;b\n1,5;2,5\n", NULL, "--separator semicolon");
    CHECK_REFUSED("a\tb\n1\t2\n", "b", "--separator tab");
    CHECK_REFUSED("1,2\n", NULL, "--no-header");
    CHECK_REFUSED("a,b\n1,2\n", "c", "there is a, b");
    ASSERT_FALSE(parse("a,b\n1,2\n", ';', 1, NULL));
    ASSERT(strstr(why, "--separator comma"));
    ASSERT_FALSE(parse("a;b\n1,5;2\n", ';', 1, NULL));
    ASSERT(strstr(why, "decimals are behind a point"));
    ASSERT_FALSE(parse("1,2\n", ',', 0, "3"));
    ASSERT(strstr(why, "no column 3"));
#ifdef PU_FLOAT
    CHECK_REFUSED("a\n1e39\n", NULL, "not a number");
#endif
    PASS();
}

TEST too_much(void)
{
    static char text[60000];
    csv_format format = {',', 1, NULL, 0, 0};
    size_t n;
    for (n = 0; n < 2 * CSV_COLUMNS; n++) text[n] = ',';
    text[n] = 0;
    CHECK_REFUSED(text, NULL, "too many columns");
    memset(text, 'a', sizeof text - 1);
    CHECK_REFUSED(text, NULL, "name is too long");
    memset(text, '9', sizeof text - 1), memcpy(text, "a\n", 2); /* a number of 60,000 digits */
    CHECK_REFUSED(text, NULL, "line 2, column 1: not a number");
    csv_free(&table);
    ASSERT_FALSE(csv_parse("a\n1\0002\n", 6, &format, &table, why));
    ASSERT(strstr(why, "zero byte"));
    ASSERT_FALSE(csv_read("no/such/file.csv", &format, &table, why));
    ASSERT(strstr(why, "cannot be read"));
    PASS();
}

/* Any bytes at all: a table that is consistent, or a reason. Half of them from the alphabet of such files, so that much gets far. */
TEST random_bytes(void)
{
    static const char common[] = "0123456789.-eE,,,,;\t\"\n\n\r#NAa ";
    static const uint32_t key[2] = {7, 11};
    csv_format format = {',', 1, NULL, 0, 0};
    int trial, accepted = 0;
    for (trial = 0; trial < 20000; trial++) {
        uint32_t counter[4] = {0, 0, 0, 0}, r[4];
        const size_t length = (size_t)(trial % 61);
        char *text = (char *)malloc(length + 1); /* of just that size, for the sanitizer */
        size_t i;
        int ok;
        ASSERT(text);
        counter[0] = (uint32_t)trial;
        for (i = 0; i < length; i++) {
            counter[1] = (uint32_t)i;
            pu_philox(key, counter, r);
            text[i] = trial % 8 ? common[r[0] % (sizeof common - 1)] : (char)(r[0] & 255u);
            if (trial % 2 && i < 4) text[i] = "a,b\n"[i];
        }
        format.header = trial % 3 != 0, format.separator = ",;\t"[trial / 3 % 3];
        csv_free(&table);
        why[0] = 0;
        ok = csv_parse(text, length, &format, &table, why);
        free(text);
        accepted += ok;
        if (ok) ASSERT(table.rows > 0 && table.columns > 0 && table.value);
        else ASSERT(why[0] && !table.value && table.rows == 0);
        for (i = 0; ok && i < (size_t)(table.rows * table.columns); i++) ASSERT(!isinf((double)table.value[i]));
    }
    csv_free(&table);
    ASSERT(accepted > 100); /* the trials reach the far end, too */
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(plain);
    RUN_TEST(gaps);
    RUN_TEST(choice_of_columns);
    RUN_TEST(dress);
    RUN_TEST(refusals);
    RUN_TEST(too_much);
    RUN_TEST(random_bytes);
    csv_free(&table);
    PU_TEST_MAIN_END();
}

/* table.h of the examples: what it reads, and above all what it refuses. */
#include "pu_test.h"

#include "../examples/common/csv.h"
#include "../examples/common/table.h"

static table_column column[4];
static table t;
static char why[CSV_WHY];

static int parse_bytes(const char *text, size_t length)
{
    table_source from = {NULL, NULL, 0};
    from.text = text, from.left = length;
    why[0] = 0;
    return table_parse(&t, &from, why);
}

/* A response and two groups, and a number where x is not NULL. */
static void want(const char *y, const char *a, const char *b, const char *x)
{
    table_free(&t);
    column[0] = table_want(y, TABLE_NUMBER), column[1] = table_want(a, TABLE_LEVEL);
    column[2] = table_want(b, TABLE_LEVEL), column[3] = table_want(x, TABLE_NUMBER);
    table_open(&t, x ? 4 : 3, column);
}

static int parse(const char *text) { return parse_bytes(text, strlen(text)); }

/* refused, with these words in the message */
static int refused(const char *text, const char *words)
{
    want("y", "a", "b", NULL);
    if (parse(text) || !strstr(why, words)) {
        snprintf(pu_test_message, sizeof pu_test_message, "%.60s: got \"%.150s\", want \"%.60s\"", text, why, words);
        return 0;
    }
    return 1;
}

#define CHECK_REFUSED(text, words) ASSERTm(pu_test_message, refused(text, words))
#define NAME(c, row) table_name(&column[c].names, column[c].level[row])

TEST names_become_levels_in_the_order_in_which_they_come(void)
{
    want("y", "a", "b", "x");
    ASSERTm(why, parse("a,x,b,y\nred,1,1,.5\nblue,-2e1,1.0,2\nred,3,1,-4.25\n"));
    ASSERT_EQ(3, t.rows);
    ASSERT_EQ(2, column[1].names.count);
    ASSERT_EQ(2, column[2].names.count); /* by their text */
    ASSERT_STR_EQ("blue", NAME(1, 1));
    ASSERT_EQ(0, column[1].level[0]);
    ASSERT_EQ(1, column[1].level[1]);
    ASSERT_EQ(0, column[1].level[2]);
    PU_CHECK_CLOSE((double)column[0].number[2], -4.25, 0);
    PU_CHECK_CLOSE((double)column[3].number[1], -20, 0);
    ASSERT_STR_EQ("x", column[3].name);
    PASS();
}

TEST separators_are_found(void)
{
    static const char *const text[] = {"y,a,b\n1,u,v\n", "y;a;b\n1;u;v\n", "y\ta\tb\n1\tu\tv\n", "y::a::b\n1::u::v\n",
                                       "\"y\" ;\"a\"; b\r\n 1;\"u\";v \r\n", "y::a::b\n1::u::v", "\xef\xbb\xbf# c\ny,a,b\n#\n1,u,v\n\n\n"};
    size_t i;
    for (i = 0; i < sizeof text / sizeof *text; i++) {
        want("y", "a", "b", NULL);
        ASSERTm(why, parse(text[i]));
        ASSERT_EQ(1, t.rows);
        ASSERT_STR_EQ("u", NAME(1, 0));
        ASSERT_STR_EQ("v", NAME(2, 0));
        PU_CHECK_CLOSE((double)column[0].number[0], 1, 0);
    }
    ASSERT_EQ(2, t.comments);
    want("y", "a", "b", NULL);
    t.separator = ";"; /* as told, although there are commas */
    ASSERTm(why, parse("y;a;b\n1;u,w;v\n"));
    ASSERT_STR_EQ("u,w", NAME(1, 0));
    want("y", "a", "b", NULL);
    ASSERTm(why, parse("y,a,b\n1,\"u, \"\"w\"\"\",v:w\n"));
    ASSERT_STR_EQ("u, \"w\"", NAME(1, 0));
    ASSERT_STR_EQ("v:w", NAME(2, 0));
    PASS();
}

TEST columns_by_number(void)
{
    want("3", "1", "2", NULL);
    ASSERTm(why, parse("196\t242\t3\t881\n186\t302\t4\t891\n")); /* no header */
    ASSERT_EQ(2, t.rows);
    ASSERT_STR_EQ("196", NAME(1, 0));
    ASSERT_STR_EQ("1", column[1].name);
    want("3", "1", "2", NULL);
    ASSERTm(why, parse("user,item,rating\n7,8,NA\n7,8,1\n")); /* a header: the response is no number there */
    ASSERT_EQ(1, t.rows);
    ASSERT_EQ(1, t.no_response);
    ASSERT_STR_EQ("user", column[1].name);
    want("3", "1", "2", NULL);
    ASSERTm(why, parse("7,8,NA\n7,8,1\n")); /* a gap in the first line is no header */
    ASSERT_EQ(1, t.rows);
    ASSERT_EQ(1, t.no_response);
    want("y", "2", "b", NULL);
    ASSERTm(why, parse("y,a,b\n1,u,v\n")); /* names and numbers */
    ASSERT_STR_EQ("a", column[1].name);
    want("3", "1", "9", NULL);
    ASSERT_FALSE(parse("1,2,3\n"));
    ASSERT(strstr(why, "there is no column 9; there are 3, and the first line is data"));
    PASS();
}

TEST rows_with_gaps_are_left_out_and_bring_no_levels(void)
{
    want("y", "a", "b", "x");
    ASSERTm(why, parse("y,a,b,x\n1,p,q,1\n,new,q,1\nNA,p,new,1\n2,,q,1\n3,p,NA,1\n4,p,q,nan\n5,p,r,2\n"));
    ASSERT_EQ(2, t.rows);
    ASSERT_EQ(2, t.no_response);
    ASSERT_EQ(3, t.no_cell);
    ASSERT_EQ(5, t.gap_line);
    ASSERT_EQ(2, t.gap_column);
    ASSERT_EQ(1, column[1].names.count);
    ASSERT_EQ(2, column[2].names.count);
    PASS();
}

TEST combinations_are_levels(void)
{
    want("y", "a", "a:b", NULL);
    ASSERTm(why, parse("y,a,b\n1,p,q\n2,p,r\n3,p,q\n4,p:q,r\n5,p,q:r\n"));
    ASSERT_EQ(4, column[2].names.count); /* p:q with r is not p with q:r */
    ASSERT_EQ(0, column[2].level[2]);
    ASSERT_EQ(3, column[2].level[4]);
    ASSERT_STR_EQ("a:b", column[2].name);
    PASS();
}

TEST a_second_file_appends(void)
{
    want("y", "a", "b", "x");
    ASSERTm(why, parse("y,a,b,x\n1,p,q,1\n2,r,q,2\n"));
    t.predict = 1;
    ASSERTm(why, parse("x;b;a\n3;q;r\n4;q;new\n"));
    ASSERT_EQ(4, t.rows);
    ASSERT(isnan((double)column[0].number[2]));
    ASSERT_EQ(1, column[1].level[2]);
    ASSERT_EQ(2, column[1].level[3]);
    ASSERT_EQ(3, column[1].names.count);
    ASSERT_STR_EQ("y", column[0].name);
    ASSERTm(why, parse("y,a,b,x\nNA,p,q,1\n7,r,q,2\n"));
    ASSERT_EQ(6, t.rows);
    PU_CHECK_CLOSE((double)column[0].number[5], 7, 0);
    ASSERT_FALSE(parse("y,a,b,x\n1,p,,1\n"));
    ASSERT(strstr(why, "line 2, column 3: missing, but a prediction needs it"));
    ASSERT_FALSE(parse("y,a,b\n1,p,q\n"));
    ASSERT(strstr(why, "there is no column x"));
    PASS();
}

/* Decimal numbers come out as strtod has them, to the bit, whichever way they are read. */
TEST numbers_are_rounded_once(void)
{
    static const char *const text[] = {"0", "-0", "+1.", ".5", "0.1", "3.14159265358979", "123456789012345", "0.000000000000001",
                                       "1234567890123456789", "0.1234567890123456789", "1e5", "-2.5E-3", "17976931348623157e2", "007",
                                       "9007199254740993", "0.30000000000000004", "1.7e-45"};
    size_t i;
    for (i = 0; i < sizeof text / sizeof *text; i++) {
        char buffer[40];
        table_cell cell;
        pu_real x;
        snprintf(buffer, sizeof buffer, "%s", text[i]);
        cell.begin = buffer, cell.end = buffer + strlen(buffer);
        ASSERTm(text[i], table_number(cell, &x));
        ASSERTm(text[i], (double)x >= (double)(pu_real)strtod(text[i], NULL) && (double)x <= (double)(pu_real)strtod(text[i], NULL));
    }
    PASS();
}

TEST refusals(void)
{
    static char text[3 * CSV_COLUMNS + 10];
    CHECK_REFUSED("", "no rows");
    CHECK_REFUSED("\n\n", "no rows");
    CHECK_REFUSED("# only\n", "no rows");
    CHECK_REFUSED("y,a,b\n", "no rows below the names");
    CHECK_REFUSED("y,a,b\nNA,1,2\n", "every row lacks");
    CHECK_REFUSED("y,a\n1,2\n", "there is no column b; there is y, a");
    CHECK_REFUSED("y,a,b,a\n1,2,3,4\n", "two columns are called a");
    CHECK_REFUSED("y,a,b\n1,2,3\n1,2\n", "line 3: fewer cells");
    CHECK_REFUSED("y,a,b\n1,2,3,4\n", "line 2: more cells");
    CHECK_REFUSED("y,a,b\n1,2,3\n\n1,2,3\n", "line 3: a blank line");
    CHECK_REFUSED("y,a,b\n1,2,3\nx4,2,3\n", "line 3, column 1: not a number: x4");
    CHECK_REFUSED("y,a,b\n0x10,2,3\n", "not a number");
    CHECK_REFUSED("y,a,b\ninf,2,3\n", "not a number");
    CHECK_REFUSED("y,a,b\n1e999,2,3\n", "not a number");
    CHECK_REFUSED("y,a,b\n-,2,3\n", "not a number");
    CHECK_REFUSED("y,a,b\n1.2.3,2,3\n", "not a number");
    CHECK_REFUSED("y,a,b\n.,2,3\n", "not a number");
    CHECK_REFUSED("y,a,b\n1,\"2,3\n", "line 2, column 2: quotes");
    CHECK_REFUSED("y,a,b\n1,\"2\"2,3\n", "line 2, column 2: quotes");
    CHECK_REFUSED("y,a,b\n1,2\"2\",3\n", "line 2, column 2: quotes");
    CHECK_REFUSED("y::a::b\n1::\"2\":3\n", "line 2, column 2: quotes");
    memset(text, ',', 3 * CSV_COLUMNS);
    CHECK_REFUSED(text, "too many columns");
    want("y", "a", "b", NULL);
    ASSERT_FALSE(parse_bytes("y,a,b\n1,\0002,3\n", 13));
    ASSERT(strstr(why, "line 2: a zero byte"));
    want("y", "a", "b", NULL);
    t.block = 8;
    ASSERT_FALSE(parse("y,a,b\n1,2,34567\n"));
    ASSERT(strstr(why, "line 2: the line is too long"));
    want("y", "a", "b", NULL);
    ASSERT_FALSE(table_read(&t, "no/such/file.csv", why));
    ASSERT(strstr(why, "cannot be read"));
#ifdef PU_FLOAT
    CHECK_REFUSED("y,a,b\n1e39,2,3\n", "not a number");
#endif
    PASS();
}

/* More names than one hash table has room for at first; every one is found again. */
TEST many_levels(void)
{
    enum { COUNT = 20000 };
    char *text = (char *)malloc(40 * COUNT);
    size_t at = 0;
    int i;
    ASSERT(text);
    at += (size_t)sprintf(text, "y,a,b\n");
    for (i = 0; i < COUNT; i++) at += (size_t)sprintf(text + at, "%d,name%d,%d\n", i, i, i * 7919 % 1000);
    for (i = 0; i < COUNT; i++) at += (size_t)sprintf(text + at, "%d,name%d,%d\n", i, i, i * 7919 % 1000);
    want("y", "a", "b", NULL);
    t.block = 64; /* lines across the ends of blocks */
    i = parse_bytes(text, at);
    free(text);
    ASSERTm(why, i);
    ASSERT_EQ(2 * COUNT, t.rows);
    ASSERT_EQ(COUNT, column[1].names.count);
    ASSERT_EQ(1000, column[2].names.count);
    for (i = 0; i < 2 * COUNT; i++) {
        char name[20];
        ASSERT_EQ(i % COUNT, column[1].level[i]);
        sprintf(name, "name%d", i % COUNT);
        ASSERT_STR_EQ(name, NAME(1, i));
    }
    PASS();
}

/* Any bytes at all, in blocks of any size: a table that is consistent, the same whatever the blocks, or a reason. */
TEST random_bytes(void)
{
    static const char common[] = "0123456789.-eE,,,,,;\t\"\n\n\n\r#NA:: ab";
    static const uint32_t key[2] = {5, 13};
    int trial, accepted = 0;
    for (trial = 0; trial < 20000; trial++) {
        uint32_t counter[4] = {0, 0, 0, 0}, r[4];
        const size_t length = (size_t)(trial % 61);
        char *text = (char *)malloc(length + 1), first[CSV_WHY]; /* of just that size, for the sanitizer */
        pu_int rows;
        size_t i;
        int ok, again, c;
        ASSERT(text);
        counter[0] = (uint32_t)trial;
        for (i = 0; i < length; i++) {
            counter[1] = (uint32_t)i;
            pu_philox(key, counter, r);
            text[i] = trial % 8 ? common[r[0] % (sizeof common - 1)] : (char)(r[0] & 255u);
            if (trial % 4 && i < 16) text[i] = "y,a,b\n1,2,3\n4,5,"[i];
        }
        want(trial % 3 ? "y" : "1", trial % 3 ? "a" : "2", trial % 3 ? "b:a" : "3", NULL);
        ok = parse_bytes(text, length);
        rows = t.rows;
        memcpy(first, why, sizeof first);
        for (c = 1; ok && c < 3; c++)
            for (i = 0; i < (size_t)rows; i++) ASSERT(column[c].level[i] >= 0 && column[c].level[i] < column[c].names.count);
        for (i = 0; ok && i < (size_t)rows; i++) ASSERT(!isinf((double)column[0].number[i]) && !isnan((double)column[0].number[i]));
        if (ok) ASSERT(rows > 0);
        else ASSERT(why[0]);
        accepted += ok;
        want(trial % 3 ? "y" : "1", trial % 3 ? "a" : "2", trial % 3 ? "b:a" : "3", NULL);
        t.block = 61 + (size_t)(trial % 5);
        again = parse_bytes(text, length);
        free(text);
        ASSERT_EQ(ok, again);
        ASSERT_EQ(rows, t.rows);
        ASSERT_STR_EQ(first, why);
    }
    ASSERT(accepted > 100); /* the trials reach the far end, too */
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(names_become_levels_in_the_order_in_which_they_come);
    RUN_TEST(separators_are_found);
    RUN_TEST(columns_by_number);
    RUN_TEST(rows_with_gaps_are_left_out_and_bring_no_levels);
    RUN_TEST(combinations_are_levels);
    RUN_TEST(a_second_file_appends);
    RUN_TEST(numbers_are_rounded_once);
    RUN_TEST(refusals);
    RUN_TEST(many_levels);
    RUN_TEST(random_bytes);
    table_free(&t);
    PU_TEST_MAIN_END();
}

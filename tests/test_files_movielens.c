/* test_files_movielens.c - the reader of ratings: all formats give the same ratings; whatever is not one of them is refused,
   with the line, and without a leak or a stray read (this runs under sanitizers, too). */
#include "pu_test.h"
#include "test_common.h"

#include "../examples/common/movielens.h"

static char path[64];

/* Reads a file of these bytes. */
static int read_bytes(const void *bytes, size_t count, movielens *m)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file)) return -1;
    return movielens_read(path, m);
}

static int read_text(const char *text, movielens *m)
{
    return read_bytes(text, strlen(text), m);
}

/* Refused, and the reason holds this. */
static int refused(const char *text, const char *why)
{
    movielens m;
    if (read_text(text, &m) != 0) return 0;
    if (strstr(m.error, why) && !m.rating && !m.user_id && !m.item_id && m.count == 0) return 1;
    fprintf(stderr, "%s: wanted \"%s\", got \"%s\"\n", text, why, m.error);
    return 0;
}

TEST three_formats(void)
{
    static const char *const text[] = {"7::30::4.5::99\n3::20::1::98\n7::10::3::97\n",
                                       "7\t30\t4.5\t99\r\n3\t20\t1\t98\r\n7\t10\t3\t97\r\n",
                                       "userId,movieId,rating,timestamp\n7,30,4.5,99\n3,20,1.0,98\n7,10,3,97",
                                       "UserID,MovieID,Rating\n7,30,4.5\n3,20,1\n7,10,3\n"};
    size_t i;
    for (i = 0; i < sizeof text / sizeof *text; i++) {
        movielens m;
        ASSERT_EQ(read_text(text[i], &m), 1);
        ASSERT(m.count == 3 && m.users == 2 && m.items == 3);
        ASSERT(m.user_id[0] == 3 && m.user_id[1] == 7);
        ASSERT(m.item_id[0] == 10 && m.item_id[1] == 20 && m.item_id[2] == 30);
        ASSERT(m.rating[0].user == 0 && m.rating[0].item == 1 && m.rating[0].value == 1.0f);
        ASSERT(m.rating[1].user == 1 && m.rating[1].item == 0 && m.rating[1].value == 3.0f);
        ASSERT(m.rating[2].user == 1 && m.rating[2].item == 2 && m.rating[2].value == 4.5f);
        ASSERT(m.low == 1 && m.high == 4.5);
        movielens_free(&m);
    }
    PASS();
}

/* More ratings than the first allocation holds, numbers at the end of their range. */
TEST many_ratings(void)
{
    enum { COUNT = 10000 };
    FILE *file = fopen(path, "wb");
    movielens m;
    long i;
    ASSERT(file);
    for (i = COUNT; i > 0; i--) fprintf(file, "%ld\t%ld\t%ld\n", 2147483647 - i % 100, i, i % 5);
    ASSERT(fclose(file) == 0);
    ASSERT_EQ(movielens_read(path, &m), 1);
    ASSERT(m.count == COUNT && m.users == 100 && m.items == COUNT);
    ASSERT(m.user_id[99] == 2147483647);
    for (i = 1; i < COUNT; i++) ASSERT(movielens_order(&m.rating[i - 1], &m.rating[i]) < 0);
    for (i = 0; i < COUNT; i++) ASSERT(m.rating[i].value == (float)(m.item_id[m.rating[i].item] % 5));
    movielens_free(&m);
    PASS();
}

TEST malformed_is_refused(void)
{
    movielens m;
    ASSERT(refused("", "no rating"));
    ASSERT(refused("userId,movieId,rating\n", "no rating"));
    ASSERT(refused("\n1::2::3\n", "line 1: the fields are not separated"));
    ASSERT(refused("1 2 3\n", "line 1: the fields are not separated"));
    ASSERT(refused("1,2,3\n", "line 1: with commas the first line must be a header"));
    ASSERT(refused("movieId,userId,rating\n1,2,3\n", "line 1: with commas"));
    ASSERT(refused("userId,movieId,stars\n1,2,3\n", "line 1: with commas"));
    ASSERT(refused("1::2\n", "line 1: there must be 3 or 4 fields"));
    ASSERT(refused("1::2::3::4::5\n", "line 1: there must be 3 or 4 fields"));
    ASSERT(refused("1::2::3::4\n1::3::3\n", "line 2: another count"));
    ASSERT(refused("1::2::3\n1::3::3::4\n", "line 2: another count"));
    ASSERT(refused("1::2::3::4\n1::3", "line 2: another count")); /* cut off */
    ASSERT(refused("1::2::3::4\n1::3::", "line 2: the rating"));
    ASSERT(refused("1::2::3::4\n\n1::3::4::5\n", "line 2: the user"));
    ASSERT(refused("1::2::3::4\n1\t3\t3\t4\n", "line 2: the user")); /* another separator */
    ASSERT(refused("1::2::3\n-1::3::3\n", "line 2: the user"));
    ASSERT(refused("1::2::3\n1::0x3::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1:: 3::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1::2147483648::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1::99999999999999999999999::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1.5::3::3\n", "line 2: the user"));
    ASSERT(refused("1::2::3\n1::3::nan\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::1e3\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::1001\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::.\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::4.5.6\n", "line 2: the rating"));
    ASSERT(refused("1::2::3::4\n1::3::4::now\n", "line 2: the time stamp"));
    ASSERT(refused("1::2::3\n2::2::3\n1::2::4\n", "line 3: a second rating"));
    ASSERT_EQ(movielens_read("no/such/file", &m), 0);
    ASSERT(m.error[0] && !m.rating);
    PASS();
}

TEST bytes_that_are_no_text(void)
{
    static const char zero[] = "1::2::3\n1::3::4\0::5\n", last[] = "1::2::3\n1::3::4\0";
    char line[1000];
    movielens m;
    int round;
    size_t i;
    ASSERT_EQ(read_bytes(zero, sizeof zero - 1, &m), 0);
    ASSERT(strstr(m.error, "line 2: a zero byte"));
    ASSERT_EQ(read_bytes(last, sizeof last - 1, &m), 0); /* the zero is the last byte of the file */
    ASSERT(strstr(m.error, "line 2: a zero byte"));
    memset(line, '1', sizeof line);
    ASSERT_EQ(read_bytes(line, sizeof line, &m), 0);
    ASSERT(strstr(m.error, "line 1: the line is too long"));
    for (round = 0; round < 200; round++) { /* random bytes, then random changes of a good file */
        for (i = 0; i < sizeof line; i++) line[i] = (char)(tc_hash((uint64_t)round * 1000 + i) >> 13);
        ASSERT_EQ(read_bytes(line, sizeof line, &m), 0);
    }
    for (round = 0; round < 500; round++) {
        static const char alphabet[] = "0123456789.:\t\n,-\0x";
        char good[] = "12::34::5::678\n12::35::4::679\n13::34::3::680\n";
        const uint64_t r = tc_hash((uint64_t)round);
        int status;
        good[r % (sizeof good - 1)] = alphabet[(r >> 20) % (sizeof alphabet - 1)];
        status = read_bytes(good, r >> 40 & 1 ? sizeof good - 1 : (r >> 41) % sizeof good, &m);
        ASSERT(status == 0 || status == 1);
        if (status) {
            ASSERT(m.count >= 1 && m.count <= 4 && m.users >= 1 && m.items >= 1 && m.high <= 1000 && m.low >= 0);
            movielens_free(&m);
        } else
            ASSERT(m.error[0]);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    snprintf(path, sizeof path, "movielens_test.%p.tmp", (void *)&argc); /* one each for tests that run at the same time */
    RUN_TEST(three_formats);
    RUN_TEST(many_ratings);
    RUN_TEST(malformed_is_refused);
    RUN_TEST(bytes_that_are_no_text);
    remove(path);
    PU_TEST_MAIN_END();
}

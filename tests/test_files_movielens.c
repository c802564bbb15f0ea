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
    if (strstr(m.error, why) && !m.pair && !m.value && !m.user_id && !m.item_id && m.count == 0) return 1;
    fprintf(stderr, "%s: wanted \"%s\", got \"%s\"\n", text, why, m.error);
    return 0;
}

TEST three_formats(void)
{
    static const char *const text[] = {"7::30::4.5::99\n3::20::1::98\n7::10::3::97\n",
                                       "7\t30\t4.5\t99\r\n3\t20\t1\t98\r\n7\t10\t3\t97\r\n",
                                       "userId,movieId,rating,timestamp\n7,30,4.5,99\n3,20,1.0,98\n7,10,3,97",
                                       "UserID,MovieID,Rating\n7,30,4.5\n3,20,1\n7,10,3\n",
                                       "7,30,4.5\n3,20,1\n7,10,3\n",
                                       "\357\273\2777,30,4.5\r\n3,20,1\r\n7,10,3\r\n",
                                       "\"userId\"\t\"item\"\t\"rating\"\n7\t30\t4.5\n3\t20\t1\n7\t10\t3\r",
                                       "user_id::item_id::rating::when\n007::30::4.50000000000::0\n3::20::1.::98\n7::10::03::97"};
    size_t i;
    for (i = 0; i < sizeof text / sizeof *text; i++) {
        movielens m;
        ASSERT_EQ(read_text(text[i], &m), 1);
        ASSERT(m.count == 3 && m.users == 2 && m.items == 3);
        ASSERT(m.user_id[0] == 3 && m.user_id[1] == 7);
        ASSERT(m.item_id[0] == 10 && m.item_id[1] == 20 && m.item_id[2] == 30);
        ASSERT(movielens_user(&m, 0) == 0 && movielens_item(&m, 0) == 1 && m.value[0] == PU_R(1.0));
        ASSERT(movielens_user(&m, 1) == 1 && movielens_item(&m, 1) == 0 && m.value[1] == PU_R(3.0));
        ASSERT(movielens_user(&m, 2) == 1 && movielens_item(&m, 2) == 2 && m.value[2] == PU_R(4.5));
        ASSERT(m.low == 1 && m.high == 4.5);
        movielens_free(&m);
    }
    { /* a byte order mark, and a single line, which does not end */
        movielens m;
        ASSERT_EQ(read_text("\xef\xbb\xbf" "7::30::4.5", &m), 1);
        ASSERT(m.count == 1 && m.user_id[0] == 7 && m.item_id[0] == 30 && m.value[0] == PU_R(4.5));
        movielens_free(&m);
    }
    PASS();
}

/* More ratings than the first allocation and a block hold, in a random order, numbers with and without a table, some at the end of
   their range: as many as there are, increasing, each with the value that its line has. */
TEST many_ratings_in_any_order(void)
{
    enum { USERS = 500, ITEMS = 90, COUNT = USERS * ITEMS };
    static const int64_t last[3] = {0, MOVIELENS_SMALL - USERS, INT64_MAX - 1000 * (USERS - 1)};
    static int order[COUNT];
    int kind;
    long i;
    for (i = 0; i < COUNT; i++) order[i] = (int)i;
    for (i = COUNT - 1; i > 0; i--) {
        const long j = (long)(tc_hash((uint64_t)i) % (uint64_t)(i + 1));
        const int keep = order[i];
        order[i] = order[j], order[j] = keep;
    }
    for (kind = 0; kind < 3; kind++) {
        const int64_t first = last[kind], gap = kind == 2 ? 1000 : 1 + kind;
        FILE *file = fopen(path, "wb");
        movielens m;
        ASSERT(file);
        for (i = 0; i < COUNT; i++) {
            const int64_t user = first + gap * (order[i] / ITEMS), item = (int64_t)(order[i] % ITEMS) * 77777;
            fprintf(file, "%lld::%lld::%d.%d::%d\n", (long long)user, (long long)item, order[i] % 7, order[i] % 10, order[i]);
        }
        ASSERT(fclose(file) == 0);
        ASSERT_EQ(movielens_read(path, &m), 1);
        ASSERT(m.count == COUNT && m.users == USERS && m.items == ITEMS);
        for (i = 0; i < USERS; i++) ASSERT(m.user_id[i] == first + gap * i);
        for (i = 0; i < ITEMS; i++) ASSERT(m.item_id[i] == 77777 * (int64_t)i);
        for (i = 0; i < COUNT; i++) {
            ASSERT(movielens_user(&m, i) == i / ITEMS && movielens_item(&m, i) == i % ITEMS);
            ASSERT(m.value[i] == (pu_real)(float)((double)(i % 7 * 10 + i % 10) / 10));
        }
        ASSERT_EQ(movielens_place(first + gap, m.users, m.user_id), 1);
        ASSERT_EQ(movielens_place(first - 1, m.users, m.user_id), -1);
        movielens_free(&m);
    }
    PASS();
}

/* The sort against sorted numbers, for piles of all sizes and bits. */
TEST sorting_in_place(void)
{
    enum { MOST = 3000 };
    static uint64_t pair[MOST];
    static pu_real value[MOST];
    long n, i;
    for (n = 0; n < MOST; n = n + n / 5 + 1) {
        const int bits = (int)(tc_hash((uint64_t)n) % 60) + 1;
        uint64_t sum = 0, sorted_sum = 0;
        for (i = 0; i < n; i++) {
            pair[i] = tc_hash((uint64_t)(n * MOST + i)) >> (64 - bits), value[i] = (pu_real)(pair[i] % 1000);
            sum += pair[i] * pair[i];
        }
        movielens_sort(pair, value, n, bits > 8 ? bits - 8 : 0);
        for (i = 0; i < n; i++) {
            ASSERT(i == 0 || pair[i - 1] <= pair[i]);
            ASSERT(value[i] == (pu_real)(pair[i] % 1000));
            sorted_sum += pair[i] * pair[i];
        }
        ASSERT(sum == sorted_sum);
    }
    PASS();
}

/* A line that two blocks share, at every place of it: lines of 23 bytes, which do not divide a block. */
TEST blocks_may_end_anywhere(void)
{
    enum { COUNT = 4 * MOVIELENS_BLOCK / 23 };
    FILE *file = fopen(path, "wb");
    movielens m;
    long i;
    ASSERT(file);
    for (i = 0; i < COUNT; i++) fprintf(file, "%06ld\t%06ld\t4.5\t%04ld%s", i, 999999 - i, i % 1000, i % 2 ? "\n" : "\r\n");
    ASSERT(fclose(file) == 0);
    ASSERT_EQ(movielens_read(path, &m), 1);
    ASSERT(m.count == COUNT && m.users == COUNT && m.items == COUNT);
    for (i = 0; i < COUNT; i++) ASSERT(m.user_id[i] == i && movielens_item(&m, i) == COUNT - 1 - i && m.value[i] == PU_R(4.5));
    movielens_free(&m);
    PASS();
}

static long told_count, told_times;
static double told_share;

static void told(long count, double share, void *user)
{
    (void)user;
    if (count >= told_count && share >= told_share) told_times++;
    told_count = count, told_share = share;
}

TEST progress_is_told(void)
{
    FILE *file = fopen(path, "wb");
    movielens m;
    long i;
    ASSERT(file);
    for (i = 0; i < 100000; i++) fprintf(file, "%ld::1::4\n", i);
    ASSERT(fclose(file) == 0);
    ASSERT_EQ(movielens_load(path, &m, told, NULL), 1);
    ASSERT(told_times >= 4 && told_count == 100000 && told_share == 1);
    movielens_free(&m);
    PASS();
}

TEST malformed_is_refused(void)
{
    movielens m;
    ASSERT(refused("", "no rating"));
    ASSERT(refused("userId,movieId,rating\n", "no rating"));
    ASSERT(refused("\n1::2::3\n", "line 1: an empty line"));
    ASSERT(refused("1 2 3\n", "line 1: the fields are not separated"));
    ASSERT(refused("\xef\xbb\xbf", "no rating"));
    ASSERT(refused("\r\n", "line 1: an empty line"));
    ASSERT(refused("movieId,userId,rating\n1,2,3\n", "line 1: a first line that names the columns must"));
    ASSERT(refused("userId,movieId,stars\n1,2,3\n", "line 1: a first line that names"));
    ASSERT(refused("userId,movieId,rating\nuserId,movieId,rating\n", "line 2: the user"));
    ASSERT(refused("1::2::3\nuserId::movieId::rating\n", "line 2: the user"));
    ASSERT(refused("1,2,3\n\"1\",3,3\n", "line 2: the user"));
    ASSERT(refused("1,2,3\n1,\"3\",3\n", "line 2: the item"));
    ASSERT(refused("\"1\",\"2\",\"3\"\n", "line 1: a first line that names"));
    ASSERT(refused(" 1,2,3\n", "line 1: the user"));
    ASSERT(refused("1,2,3 \n", "line 1: the rating"));
    ASSERT(refused("1;2;3\n", "line 1: the fields are not separated"));
    ASSERT(refused("1,2,3\r4,5,6\n", "line 1: there must be 3 or 4 fields")); /* lines of an old Macintosh */
    ASSERT(refused("1,2,3\n4,5,6\r\r\n", "line 2: the rating"));
    ASSERT(refused("1::2\n", "line 1: there must be 3 or 4 fields"));
    ASSERT(refused("1::2::3::4::5\n", "line 1: there must be 3 or 4 fields"));
    ASSERT(refused("1::2::3::4\n1::3::3\n", "line 2: another count"));
    ASSERT(refused("1::2::3\n1::3::3::4\n", "line 2: another count"));
    ASSERT(refused("1::2::3::4\n1::3", "line 2: another count")); /* cut off */
    ASSERT(refused("1::2::3::4\n1::3::", "line 2: the rating"));
    ASSERT(refused("1::2::3::4\n\n1::3::4::5\n", "line 2: an empty line"));
    ASSERT(refused("1::2::3::4\n1\t3\t3\t4\n", "line 2: the user")); /* another separator */
    ASSERT(refused("1::2::3\n-1::3::3\n", "line 2: the user"));
    ASSERT(refused("1::2::3\n1::0x3::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1:: 3::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1::9223372036854775808::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n18446744073709551617::2::3\n", "line 2: the user")); /* 2^64 + 1 */
    ASSERT(refused("1::2::3\n1::3::-0\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::+3\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::1e400\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::inf\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::3.0000000000000001\n", "line 2: the rating")); /* digits that nobody means */
    ASSERT(refused("1::2::3\n1::3::18446744073709551617\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1:3:3\n", "line 2: the user"));
    ASSERT(refused("1::2::3\n1::3::3:", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::3::", "line 2: another count"));
    ASSERT(refused("1::2::3\n1::99999999999999999999999::3\n", "line 2: the item"));
    ASSERT(refused("1::2::3\n1.5::3::3\n", "line 2: the user"));
    ASSERT(refused("1::2::3\n1::3::nan\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::1e3\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::1001\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::.\n", "line 2: the rating"));
    ASSERT(refused("1::2::3\n1::3::4.5.6\n", "line 2: the rating"));
    ASSERT(refused("1::2::3::4\n1::3::4::now\n", "line 2: the time stamp"));
    ASSERT(refused("1::2::3\n2::2::3\n1::2::4\n", "line 3: a second rating of item 2 by user 1"));
    ASSERT(refused("u,i\n", "line 1: there must be 3 or 4 fields"));
    ASSERT(refused("user,item,rating\n9,9,1\n8,8,1\n9,9,2\n8,8,1\n8,8,2", "line 5: a second rating of item 8 by user 8"));
    ASSERT_EQ(movielens_read("no/such/file", &m), 0);
    ASSERT(m.error[0] && !m.pair);
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
    { /* a line longer than a block */
        char *endless = (char *)malloc(MOVIELENS_BLOCK + 10);
        ASSERT(endless);
        memset(endless, '1', MOVIELENS_BLOCK + 10), memcpy(endless, "1::2::3\n", 8);
        round = read_bytes(endless, MOVIELENS_BLOCK + 10, &m);
        free(endless);
        ASSERT_EQ(round, 0);
        ASSERT(strstr(m.error, "line 2: the line is too long"));
    }
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
    RUN_TEST(many_ratings_in_any_order);
    RUN_TEST(sorting_in_place);
    RUN_TEST(blocks_may_end_anywhere);
    RUN_TEST(progress_is_told);
    RUN_TEST(malformed_is_refused);
    RUN_TEST(bytes_that_are_no_text);
    remove(path);
    PU_TEST_MAIN_END();
}

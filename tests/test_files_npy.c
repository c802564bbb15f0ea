/* test_files_npy.c - ratings from arrays of numpy.save: every shape, type and byte order gives the same ratings as text does; what is
   not such a file, or has numbers that are no ratings, is refused, without a leak or a stray read (this runs under sanitizers). */
#include "pu_test.h"
#include "test_common.h"

#include "../examples/common/movielens.h"

enum { ROWS = 3, ROOM = 4096 };

static char path[3][64], paths[200];
static const double numbers[ROWS][4] = {{7, 30, 4, 99}, {3, 20, 1, 98}, {7, 10, 3, 97}};

typedef struct {
    unsigned char byte[ROOM];
    size_t length;
} bytes;

/* Magic, version and header; `length` 0 = as long as it is. */
static void put_header(bytes *b, int version, const char *header, size_t length)
{
    const size_t n = strlen(header), said = length ? length : n;
    memcpy(b->byte, "\x93NUMPY", 6);
    b->byte[6] = (unsigned char)version, b->byte[7] = 0;
    b->byte[8] = (unsigned char)(said & 255), b->byte[9] = (unsigned char)(said >> 8 & 255);
    b->byte[10] = (unsigned char)(said >> 16 & 255), b->byte[11] = (unsigned char)(said >> 24);
    b->length = version == 1 ? 10 : 12;
    memcpy(b->byte + b->length, header, n);
    b->length += n;
}

/* The bytes of x as a number of this type, such as "<i4". */
static void put(bytes *b, const char *type, double x)
{
    const int size = type[2] - '0', is_big = type[0] == '>';
    uint64_t bits = (uint64_t)(int64_t)x;
    int i;
    if (type[1] == 'f' && size == 4) {
        const float f = (float)x;
        uint32_t small;
        memcpy(&small, &f, 4);
        bits = small;
    } else if (type[1] == 'f')
        memcpy(&bits, &x, 8);
    for (i = 0; i < size; i++) b->byte[b->length + (size_t)(is_big ? size - 1 - i : i)] = (unsigned char)(bits >> 8 * i);
    b->length += (size_t)size;
}

static int write_bytes(const char *to, const bytes *b)
{
    FILE *file = fopen(to, "wb");
    return file && fwrite(b->byte, 1, b->length, file) == b->length && fclose(file) == 0;
}

static int read_bytes(const bytes *b, movielens *m) { return write_bytes(path[0], b) ? movielens_read(path[0], m) : -1; }

/* The plain array of the numbers above. */
static void plain(bytes *b, const char *type, int columns, int fortran, int version)
{
    char header[200];
    int i;
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }      \n", type, fortran ? "True" : "False",
             ROWS, columns);
    put_header(b, version, header, 0);
    for (i = 0; i < ROWS * columns; i++) put(b, type, fortran ? numbers[i % ROWS][i / ROWS] : numbers[i / columns][i % columns]);
}

static int is_right(movielens *m)
{
    const int right = m->count == 3 && m->users == 2 && m->items == 3 && m->user_id[0] == 3 && m->user_id[1] == 7 &&
                      m->item_id[0] == 10 && m->item_id[1] == 20 && m->item_id[2] == 30 && movielens_user(m, 0) == 0 &&
                      movielens_item(m, 0) == 1 && m->value[0] == PU_R(1.0) && movielens_user(m, 1) == 1 && movielens_item(m, 1) == 0 &&
                      m->value[1] == PU_R(3.0) && movielens_user(m, 2) == 1 && movielens_item(m, 2) == 2 && m->value[2] == PU_R(4.0);
    movielens_free(m);
    return right;
}

/* Refused, and the reason holds this. */
static int refused(const bytes *b, const char *why)
{
    movielens m;
    if (read_bytes(b, &m) != 0) return 0;
    if (strstr(m.error, why) && !m.pair && !m.value && m.count == 0) return 1;
    fprintf(stderr, "wanted \"%s\", got \"%s\"\n", why, m.error);
    return 0;
}

static int header_refused(const char *header, const char *why)
{
    static bytes b;
    put_header(&b, 1, header, 0);
    memset(b.byte + b.length, 0, 72), b.length += 72;
    return refused(&b, why);
}

TEST every_type_shape_and_order(void)
{
    static const char *const type[] = {"<i8", "<i4", "<i2", "|i1", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8", ">i8", ">i4", ">u2", ">f4", ">f8"};
    static bytes b;
    movielens m;
    size_t i;
    int columns, fortran, version;
    for (i = 0; i < sizeof type / sizeof *type; i++)
        for (columns = 3; columns <= 4; columns++)
            for (fortran = 0; fortran < 2; fortran++)
                for (version = 1; version <= 3; version++) {
                    plain(&b, type[i], columns, fortran, version);
                    ASSERT_EQ(read_bytes(&b, &m), 1);
                    ASSERT(is_right(&m));
                }
    PASS();
}

/* As pandas writes them (DataFrame.to_records): columns by name, in any order, with others between. */
TEST records_by_name(void)
{
    static bytes b;
    movielens m;
    int i;
    put_header(&b, 1, "{'descr': [('index', '<i8'), ('rating', '<f4'), ('when', '<M8[ns]'), ('movieId', '>i4'), ('', '|V3'), "
               "('UserId', '<u2')], 'fortran_order': False, 'shape': (3,), }\n", 0);
    for (i = 0; i < ROWS; i++) {
        put(&b, "<i8", i), put(&b, "<f4", numbers[i][2]), put(&b, "<i8", -1), put(&b, ">i4", numbers[i][1]);
        put(&b, "<i2", -1), put(&b, "<i1", -1), put(&b, "<u2", numbers[i][0]);
    }
    ASSERT_EQ(read_bytes(&b, &m), 1);
    ASSERT(is_right(&m));
    PASS();
}

TEST three_files(void)
{
    static const char *const type[3] = {"<i8", ">i4", "<f8"}, *const header = "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }\n";
    static bytes b;
    char text[100];
    movielens m;
    int f, i;
    for (f = 0; f < 3; f++) {
        snprintf(text, sizeof text, header, type[f], ROWS);
        put_header(&b, 1, text, 0);
        for (i = 0; i < ROWS; i++) put(&b, type[f], numbers[i][f]);
        ASSERT(write_bytes(path[f], &b));
    }
    ASSERT_EQ(movielens_read(paths, &m), 1);
    ASSERT(is_right(&m));
    snprintf(text, sizeof text, header, "<f8", ROWS - 1); /* one rating less */
    put_header(&b, 1, text, 0);
    for (i = 0; i < ROWS - 1; i++) put(&b, "<f8", numbers[i][2]);
    ASSERT(write_bytes(path[2], &b));
    ASSERT_EQ(movielens_read(paths, &m), 0);
    ASSERT(strstr(m.error, "has 2 numbers, the first file 3"));
    paths[strlen(path[0]) + 1 + strlen(path[1])] = 0; /* two files only */
    ASSERT_EQ(movielens_read(paths, &m), 0);
    ASSERT(m.error[0] && !m.pair);
    PASS();
}

TEST headers_that_lie(void)
{
    static bytes b;
    size_t i;
    plain(&b, "<i8", 3, 0, 1);
    b.byte[3] = 'X';
    ASSERT(refused(&b, "line 1")); /* taken for text */
    plain(&b, "<i8", 3, 0, 1);
    b.byte[6] = 9;
    ASSERT(refused(&b, "unknown version"));
    put_header(&b, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 3), }\n", 60000);
    ASSERT(refused(&b, "header is cut short"));
    put_header(&b, 2, "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 3), }\n", 4000000000u);
    ASSERT(refused(&b, "header is too long"));
    put_header(&b, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 3), }\n", 20);
    ASSERT(refused(&b, "the header is not one"));
    plain(&b, "<i8", 3, 0, 1);
    b.byte[30] = 0;
    ASSERT(refused(&b, "the header is not text"));
    plain(&b, "<i8", 3, 0, 1);
    b.length -= 25;
    ASSERT(refused(&b, "cut short: the header says 3 rows, there are 1"));
    plain(&b, "<i8", 3, 0, 1);
    b.length += 1;
    ASSERT(refused(&b, "longer than its header says"));
    plain(&b, "<i8", 3, 0, 1);
    for (i = 10; i < b.length; i++) { /* cut anywhere */
        bytes part = b;
        part.length = i;
        ASSERT(refused(&part, "cut short"));
    }
    ASSERT(header_refused("{'descr': '|b1', 'fortran_order': False, 'shape': (3, 3), }", "must be integers or float"));
    ASSERT(header_refused("{'descr': '<c8', 'fortran_order': False, 'shape': (3, 3), }", "must be integers or float"));
    ASSERT(header_refused("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 3), }", "must be integers or float"));
    ASSERT(header_refused("{'descr': '|O', 'fortran_order': False, 'shape': (3, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (9,), }", "there must be 3 or 4 columns"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 9), }", "there must be 3 or 4 columns"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (-3, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 99999999999), }", "1 to 1048576 columns"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807, 3), }", "more than fits"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': True, 'shape': (99999999999999999999, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (4000, 3), }", "cut short"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': False, 'descr': (3, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'shape': (3, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': '<i8', 'fortran_order': Maybe, 'shape': (3, 3), }", "the header is not one"));
    ASSERT(header_refused("{'descr': [('user', '<i8'), ('item', '<i8'), ('stars', '<i8')], 'fortran_order': False, 'shape': (3,), }", "no column of numbers called rating"));
    ASSERT(header_refused("{'descr': [('user', '<i8', (2,)), ('item', '<i8')], 'fortran_order': False, 'shape': (3,), }", "the header is not one"));
    ASSERT(header_refused("{'descr': [('user', '<i8'), ('item', '<i8'), ('rating', '|S8')], 'fortran_order': False, 'shape': (3,), }", "no column of numbers called rating"));
    ASSERT(header_refused("{'descr': [('user', '<i8'), ('item', '<i8'), ('items', '<i8')], 'fortran_order': False, 'shape': (3,), }", "two columns are called"));
    ASSERT(header_refused("{'descr': [], 'fortran_order': False, 'shape': (3,), }", "the header is not one"));
    ASSERT(header_refused("", "the header is not one"));
    put_header(&b, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3), }", 0);
    ASSERT(refused(&b, "no rating"));
    PASS();
}

/* The last number of the second row is this; then row 1 is named. */
static int value_refused(const char *type, int column, double x, const char *why)
{
    static bytes b, end;
    end.length = 0;
    plain(&b, type, 3, 0, 1);
    put(&end, type, x);
    memcpy(b.byte + b.length - (size_t)(6 - column) * end.length, end.byte, end.length);
    return refused(&b, why);
}

TEST numbers_that_are_no_ratings(void)
{
    static bytes b;
    movielens m;
    ASSERT(value_refused("<i8", 0, -1, "row 1: the user is not an integer from 0 to 2^63 - 1"));
    ASSERT(value_refused("<i4", 1, -1, "row 1: the item"));
    ASSERT(value_refused("<i8", 2, -1, "row 1: the rating"));
    ASSERT(value_refused("<i8", 2, 1001, "row 1: the rating"));
    ASSERT(value_refused("<u8", 0, -1, "row 1: the user")); /* 2^64 - 1 */
    ASSERT(value_refused("<f8", 0, 1.5, "row 1: the user is not an integer from 0 to 2^53 - 1"));
    ASSERT(value_refused("<f8", 0, 9007199254740992.0, "row 1: the user"));
    ASSERT(value_refused("<f4", 0, 16777216.0, "row 1: the user is not an integer from 0 to 2^24 - 1"));
    ASSERT(value_refused("<f8", 1, (double)NAN, "row 1: the item"));
    ASSERT(value_refused("<f8", 1, (double)INFINITY, "row 1: the item"));
    ASSERT(value_refused("<f8", 2, (double)NAN, "row 1: the rating"));
    ASSERT(value_refused("<f8", 2, 1e300, "row 1: the rating"));
    ASSERT(value_refused("<f4", 2, -0.5, "row 1: the rating"));
    plain(&b, "<i8", 3, 0, 1);
    memcpy(b.byte + b.length - 24, b.byte + b.length - 72, 16);
    ASSERT(refused(&b, "a second rating of item 30 by user 7"));
    plain(&b, "<i8", 3, 0, 1);
    memset(b.byte + b.length - 48, 255, 7), b.byte[b.length - 41] = 127; /* 2^63 - 1 is the user of row 1 */
    ASSERT_EQ(read_bytes(&b, &m), 1);
    ASSERT(m.users == 2 && m.user_id[1] == INT64_MAX);
    movielens_free(&m);
    PASS();
}

/* Random changes of good files: refused or read, never anything else. */
TEST random_changes(void)
{
    static bytes b;
    int round;
    for (round = 0; round < 3000; round++) {
        const uint64_t r = tc_hash((uint64_t)round);
        movielens m;
        int status, changes = 1 + (int)(r % 3);
        plain(&b, r >> 10 & 1 ? "<f8" : "<i4", 3 + (int)(r >> 11 & 1), (int)(r >> 12 & 1), 1 + (int)(r >> 13 & 1));
        while (changes-- > 0) {
            const uint64_t s = tc_hash(r + (uint64_t)changes);
            b.byte[6 + s % (b.length - 6)] = (unsigned char)(s >> 30 & 1 ? s >> 40 : (uint64_t)"0123456789,()'{}[]"[(s >> 40) % 18]);
        }
        if (r >> 60 == 0) b.length = (size_t)(r >> 20) % b.length;
        status = read_bytes(&b, &m);
        ASSERT(status == 0 || status == 1);
        if (status) {
            ASSERT(m.count >= 1 && m.count <= 40 && m.low >= 0 && m.high <= 1000);
            movielens_free(&m);
        } else
            ASSERT(m.error[0] && !m.pair);
    }
    PASS();
}

/* What npy_write has written is read again as it was, in every version and type; what a type cannot hold is refused. */
TEST written_is_read(void)
{
    static const char *const type[] = {"<f4", "<f8", "|u1", "<i4", "<i8"};
    static const double most[] = {1e30, 1e300, 255, 2147483647.0, 4611686018427387904.0}, none[] = {1e39, 0, 256, 2147483648.0, 9223372036854775808.0};
    double value[6] = {0, 1, 2, 3, 4, 5};
    char why[NPY_WHY];
    npy_file f;
    double *back;
    FILE *file;
    int i, version;
    for (i = 0; i < 5; i++)
        for (version = 1; version <= 3; version++) {
            value[3] = i == 2 ? 7 : -7;
            value[5] = i == 0 ? (double)(float)most[i] : most[i];
            file = fopen(path[0], "wb");
            ASSERT(file && npy_write(file, version, type[i], 3, 2, value) && fclose(file) == 0);
            ASSERT(npy_open(path[0], &f, why));
            ASSERT(f.rows == 3 && f.columns == 2 && f.begin % 64 == 0);
            back = npy_load(&f, why);
            npy_close(&f);
            ASSERT(back && memcmp(back, value, sizeof value) == 0);
            free(back);
            if (i == 1) continue;
            file = fopen(path[0], "wb");
            value[5] = none[i];
            ASSERT(file && !npy_write(file, version, type[i], 3, 2, value) && fclose(file) == 0);
            value[5] = i ? 0.5 : -1e39;
            file = fopen(path[0], "wb");
            ASSERT(file && !npy_write(file, version, type[i], 3, 2, value) && fclose(file) == 0);
        }
    file = fopen(path[0], "wb");
    ASSERT(file && !npy_write(file, 4, "<f8", 3, 2, value) && !npy_write(file, 1, "<f2", 3, 2, value) && !npy_write(file, 1, ">f8", 3, 2, value));
    ASSERT(fclose(file) == 0);
    PASS();
}

/* npy_load of every type and byte order, negative numbers and columns of Fortran included, and of files with random changes. */
TEST whole_arrays(void)
{
    static const char *const type[] = {"<i8", "<i4", "<i2", "|i1", "<f4", "<f8", ">i8", ">i4", ">i2", ">f4", ">f8"};
    static bytes b;
    char why[NPY_WHY];
    npy_file f;
    double *back;
    int i, fortran, round;
    for (i = 0; i < 11; i++)
        for (fortran = 0; fortran < 2; fortran++) {
            bytes end;
            end.length = 0;
            plain(&b, type[i], 3, fortran, 1);
            put(&end, type[i], -5);
            memcpy(b.byte + b.length - end.length, end.byte, end.length);
            ASSERT(write_bytes(path[0], &b) && npy_open(path[0], &f, why));
            back = npy_load(&f, why);
            npy_close(&f);
            ASSERT(back && back[0] == 7 && back[1] == 30 && back[2] == 4 && back[6] == 7 && back[7] == 10 && back[8] == -5);
            free(back);
        }
    for (round = 0; round < 2000; round++) {
        const uint64_t r = tc_hash((uint64_t)round + 77);
        plain(&b, type[r % 11], 3, (int)(r >> 12 & 1), 1 + (int)(r >> 13) % 3);
        b.byte[6 + (r >> 20) % (b.length - 6)] = (unsigned char)(r >> 50 & 1 ? r >> 40 : (uint64_t)"0123456789,()'{}[]"[(r >> 40) % 18]);
        if (r >> 60 == 0) b.length = (size_t)(r >> 30) % b.length;
        ASSERT(write_bytes(path[0], &b));
        why[0] = 0;
        back = npy_open(path[0], &f, why) ? npy_load(&f, why) : NULL;
        ASSERT(back || why[0]);
        if (back) ASSERT(f.rows >= 0 && f.rows * f.columns <= 72);
        npy_close(&f);
        free(back);
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int f;
    GREATEST_MAIN_BEGIN();
    for (f = 0; f < 3; f++) { /* names of their own for tests that run at the same time */
        snprintf(path[f], sizeof path[f], "npy_test.%p.%d.npy", (void *)&argc, f);
        strcat(paths, f ? "," : ""), strcat(paths, path[f]);
    }
    RUN_TEST(every_type_shape_and_order);
    RUN_TEST(records_by_name);
    RUN_TEST(three_files);
    RUN_TEST(headers_that_lie);
    RUN_TEST(numbers_that_are_no_ratings);
    RUN_TEST(random_changes);
    RUN_TEST(written_is_read);
    RUN_TEST(whole_arrays);
    for (f = 0; f < 3; f++) remove(path[f]);
    PU_TEST_MAIN_END();
}

/* test_files_share.c - a file of ratings that the processes of a team divide among themselves: together they have the lists that one
   process has alone, each its own users; what is wrong is told by all, with the line of the file. Processes are threads here. */
#define _POSIX_C_SOURCE 200809L
#include "pu_test.h"
#include "test_common.h"

#include "../examples/common/program.h"
#include "../examples/common/movielens.h"
#include "../examples/common/ratings.h"
#include "team_threads.h"

enum { USERS = 37, ITEMS = 23 };

typedef struct {
    pu_team team;
    ratings r;
    int ok;
    double sum[2]; /* what share_begin and share_end make of the ratings of all */
} member;

static char path[64];
static const char *file = path;
static team_office office;
static team_seat seats[TEAM_MOST];
static member members[TEAM_MOST];

static void *member_work(void *self)
{
    member *m = (member *)self;
    pu_int k;
    m->ok = ratings_load(file, &m->team, 3, 1, &m->r, NULL, NULL);
    if (!m->ok) return NULL;
    share_begin(&m->team, sizeof m->sum, m->sum);
    for (k = 0; k < m->r.train.start[m->r.seen]; k++) m->sum[0] += 0.1 * (double)m->r.train.y[k], m->sum[1] = m->sum[1] * 0.999 + (double)m->r.train.item[k];
    share_end(&m->team, sizeof m->sum, m->sum);
    return NULL;
}

static int run(int ranks, pu_int parts)
{
    int r;
    team_office_open(&office);
    memset(seats, 0, sizeof seats), memset(members, 0, sizeof members);
    for (r = 0; r < ranks; r++) {
        pu_team *t = &members[r].team;
        t->rank = r, t->ranks = ranks, t->parts = parts, t->total = 1, t->split = PU_TEAM_DATA;
        t->swap = team_threads_swap, t->user = &seats[r];
    }
    return team_run(&office, seats, ranks, member_work, (char *)members, sizeof *members);
}

static int same_list(const ratings_lists *a, const ratings_lists *b, pu_int u)
{
    const pu_int n = a->start[u + 1] - a->start[u];
    return n == b->start[u + 1] - b->start[u] && !memcmp(a->item + a->start[u], b->item + b->start[u], (size_t)n * sizeof(pu_int)) &&
           !memcmp(a->y + a->start[u], b->y + b->start[u], (size_t)n * sizeof(pu_real));
}

static pu_int length(const ratings_lists *l, pu_int u) { return l->start[u + 1] - l->start[u]; }

/* Has rank the lists of its own users and of no others, in the numbers that one process alone has? */
static int is_share(const ratings *alone, const ratings *r)
{
    pu_int first, count, u;
    int good = r->users == alone->users && r->items == alone->items && r->seen == alone->seen && r->all.low == alone->all.low &&
               r->all.high == alone->all.high && !memcmp(r->total, alone->total, sizeof r->total) &&
               !memcmp(r->number, alone->number, (size_t)r->users * sizeof(pu_int)) &&
               !memcmp(r->all.user_id, alone->all.user_id, (size_t)r->users * sizeof(int64_t)) &&
               !memcmp(r->all.item_id, alone->all.item_id, (size_t)r->items * sizeof(int64_t));
    if (!good || pu_team_share(&r->team, &first, &count)) return 0;
    for (u = 0; u < r->users; u++) {
        const int mine = u < r->seen ? u >= first && u < first + count : r->team.rank == 0;
        if (mine && !(same_list(&r->train, &alone->train, u) && same_list(&r->valid, &alone->valid, u) && same_list(&r->test, &alone->test, u)))
            return 0;
        if (!mine && length(&r->train, u) + length(&r->valid, u) + length(&r->test, u) > 0) return 0;
    }
    return 1;
}

/* Every number of processes and some numbers of parts, more processes than parts, too. */
static int is_divided(void)
{
    static ratings alone;
    double sum[2] = {0, 0};
    pu_int k;
    int ranks, r, good = 1;
    memset(&alone, 0, sizeof alone);
    if (!ratings_load(file, NULL, 3, 1, &alone, NULL, NULL)) return fprintf(stderr, "%s\n", alone.all.error), 0;
    for (k = 0; k < alone.train.start[alone.seen]; k++) sum[0] += 0.1 * (double)alone.train.y[k], sum[1] = sum[1] * 0.999 + (double)alone.train.item[k];
    for (ranks = 1; ranks <= TEAM_MOST; ranks++) {
        if (!run(ranks, ranks % 3 ? 8 : 5)) return 0;
        for (r = 0; r < ranks; r++) {
            if (!members[r].ok || !is_share(&alone, &members[r].r) || memcmp(sum, members[r].sum, sizeof sum)) {
                good = 0;
                fprintf(stderr, "process %d of %d: %s\n", r, ranks, members[r].ok ? "another share" : members[r].r.all.error);
            }
            ratings_free(&members[r].r);
        }
    }
    ratings_free(&alone);
    return good;
}

/* USERS x ITEMS with gaps, in a random order; users have few or many, one has one that is not for training. `wrong` replaces line
   `line`. */
static int write_text(const char *header, const char *separator, int line, const char *wrong)
{
    static int order[USERS * ITEMS];
    FILE *to = fopen(path, "wb");
    int i, n = 0, at = *header != 0;
    if (!to) return 0;
    for (i = 0; i < USERS * ITEMS; i++)
        if (tc_hash((uint64_t)i) % 100 < (uint64_t)(i / ITEMS % 5 ? 70 : 5)) order[n++] = i;
    for (i = n - 1; i > 0; i--) {
        const int j = (int)(tc_hash((uint64_t)(i + 7777)) % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[j], order[j] = keep;
    }
    fputs(header, to);
    for (i = 0; i < n; i++)
        if (++at == line) fprintf(to, "%s\n", wrong);
        else
            fprintf(to, "%lld%s%d%s%d.%d\n", 4000000000ll * (order[i] / ITEMS), separator, 3 * (order[i] % ITEMS), separator, order[i] % 5,
                    order[i] % 10);
    return fclose(to) == 0;
}

TEST text_is_divided(void)
{
    ASSERT(write_text("", "::", 0, NULL));
    ASSERT(is_divided());
    ASSERT(write_text("userId,movieId,rating\n", ",", 0, NULL));
    ASSERT(is_divided());
    ASSERT(write_text("\357\273\277user\titem\trating\r\n", "\t", 0, NULL));
    ASSERT(is_divided());
    PASS();
}

TEST arrays_are_divided(void)
{
    int fortran;
    for (fortran = 0; fortran < 2; fortran++) {
        enum { ROWS = 211 };
        char header[128];
        FILE *to = fopen(path, "wb");
        int i, n;
        ASSERT(to);
        n = snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': %s, 'shape': (%d, 3), }\n", fortran ? "True" : "False", ROWS);
        fwrite("\x93NUMPY\1\0", 1, 8, to), fputc(n, to), fputc(0, to), fputs(header, to);
        for (i = 0; i < 3 * ROWS; i++) {
            const int row = fortran ? i % ROWS : i / 3, column = fortran ? i / ROWS : i % 3;
            fputc(column == 0 ? row * 7 % ROWS / 10 : column == 1 ? row * 7 % ROWS % 10 : row % 6, to);
        }
        ASSERT(fclose(to) == 0);
        ASSERT(is_divided());
    }
    PASS();
}

/* The same words on all processes, at any number of them. */
static int all_say(const char *why)
{
    int ranks, r, good = 1;
    for (ranks = 1; ranks <= TEAM_MOST; ranks++) {
        if (!run(ranks, 8)) return 0;
        for (r = 0; r < ranks; r++)
            if (members[r].ok || strcmp(members[r].r.all.error, why) || members[r].r.all.pair) {
                good = 0;
                fprintf(stderr, "%d of %d: wanted \"%s\", got \"%s\"\n", r, ranks, why, members[r].r.all.error);
            }
    }
    return good;
}

TEST what_is_wrong_is_told_by_all(void)
{
    FILE *to;
    ASSERT(write_text("", "::", 1, "1::2"));
    ASSERT(all_say("line 1: there must be 3 or 4 fields: user, item, rating, time stamp"));
    ASSERT(write_text("userId,movieId,rating\n", ",", 2, "1,2,x"));
    ASSERT(all_say("line 2: the rating is not a plain number from 0 to 1000"));
    ASSERT(write_text("", "::", 300, "1::-2::3"));
    ASSERT(all_say("line 300: the item is not an integer from 0 to 2^63 - 1"));
    ASSERT(write_text("", "::", 300, ""));
    ASSERT(all_say("line 300: an empty line"));
    ASSERT(write_text("", "::", 5, "777::888::3"));
    to = fopen(path, "ab");
    ASSERT(to && fputs("777::888::4\n777::888::5", to) >= 0 && fclose(to) == 0); /* the first and the last process meet it */
    {
        char why[100];
        long lines = 1;
        int c;
        to = fopen(path, "rb");
        ASSERT(to);
        while ((c = getc(to)) != EOF) lines += c == '\n';
        fclose(to);
        snprintf(why, sizeof why, "line %ld: a second rating of item 888 by user 777", lines - 1);
        ASSERT(all_say(why));
    }
    to = fopen(path, "wb");
    ASSERT(to && fputs("1::2::3\n2::3::4\n", to) >= 0 && fclose(to) == 0);
    ASSERT(all_say("fewer than 100 ratings cannot be split"));
    file = "no/such/file";
    ASSERT(all_say(strerror(ENOENT)));
    file = path;
    PASS();
}

/* Other lengths and other ends have other marks, also of several files; what is not there has none. */
TEST another_file_is_known(void)
{
    char two[3 * sizeof path];
    uint64_t first, longer;
    FILE *to = fopen(path, "wb");
    ASSERT(to && fputs("1::2::3\n", to) >= 0 && fclose(to) == 0);
    first = share_mark(path);
    ASSERT(first && share_mark(path) == first);
    to = fopen(path, "ab");
    ASSERT(to && fputs("2::3::4\n", to) >= 0 && fclose(to) == 0);
    longer = share_mark(path);
    ASSERT(longer && longer != first);
    snprintf(two, sizeof two, "%s,%s", path, path);
    ASSERT(share_mark(two) && share_mark(two) != longer);
    ASSERT(share_mark("no/such/file") == 0 && share_mark("no/such,file") == 0);
    PASS();
}

TEST empty_files(void)
{
    FILE *to = fopen(path, "wb");
    int r;
    ASSERT(to && fputs("user,item,rating\n", to) >= 0 && fclose(to) == 0);
    ASSERT(all_say("there is no rating in it"));
    to = fopen(path, "wb");
    ASSERT(to && fclose(to) == 0);
    ASSERT(run(3, 8));
    for (r = 0; r < 3; r++) ASSERT(!members[r].ok && members[r].r.all.error[0]);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    snprintf(path, sizeof path, "share_test.%p.tmp", (void *)&argc); /* one each for tests that run at the same time */
    RUN_TEST(text_is_divided);
    RUN_TEST(arrays_are_divided);
    RUN_TEST(what_is_wrong_is_told_by_all);
    RUN_TEST(another_file_is_known);
    RUN_TEST(empty_files);
    remove(path);
    PU_TEST_MAIN_END();
}

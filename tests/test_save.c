/* test_save.c - models in files: every model comes back with the same bits, what does not fit is refused by name, what is cut off,
   changed, forged or of somebody else is refused and touches nothing, and a file that cannot be written leaves the old one. */
#define _POSIX_C_SOURCE 200809L
#define PU_IMPLEMENTATION
#include "pu_test.h"
#include "test_common.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

enum { ROOM = 1 << 18 };

static char directory[64], file[100];

static const char *in_directory(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static size_t read_file(const char *path, void *to, size_t most)
{
    FILE *from = fopen(path, "rb");
    size_t size = from ? fread(to, 1, most, from) : 0;
    if (from) fclose(from);
    return size;
}

static int write_file(const char *path, const void *from, size_t size)
{
    FILE *to = fopen(path, "wb");
    int ok = to && fwrite(from, 1, size, to) == size;
    return to && !fclose(to) && ok;
}

static void enter(void *unused)
{
    (void)unused;
    strcpy(directory, "/tmp/pu_save.XXXXXX");
    if (!mkdtemp(directory)) exit(2);
    snprintf(file, sizeof file, "%s/model", directory);
}

static void leave(void *unused)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command)) exit(2);
    tc_release(unused);
}

/* How many files there are: nothing is left behind. */
static int files(void)
{
    char command[200], line[32] = "";
    FILE *pipe;
    snprintf(command, sizeof command, "ls -A %s | wc -l", directory);
    pipe = popen(command, "r");
    if (!pipe || !fgets(line, sizeof line, pipe)) line[0] = 0;
    if (pipe) pclose(pipe);
    return atoi(line);
}

/* ---- models of all kinds ---- */

enum { KINDS = 16, SIZES = 5 };

/* Memory of a model: the test's. */
static void lend(pu_model *model)
{
    memset(model, 0, sizeof *model);
    pu_workspace_block(&model->memory, tc_bytes(ROOM), ROOM);
}

static pu_model *inner_of(int kind, pu_int more);

static pu_status set_nothing(pu_model *model, const pu_real *theta, pu_int *index)
{
    (void)model, (void)theta, (void)index;
    return PU_OK;
}

static void describe_pair(const pu_model *model, pu_int i, pu_param *param)
{
    (void)model;
    snprintf(param->name, sizeof param->name, "%c[%d]", i % 2 ? 'b' : 'a', (int)(i / 2));
}

/* Model number `kind`. more: larger in what theta does not depend on, other data. other: 1 .. SIZES - 1, different in what it means. */
static pu_status make(pu_model *model, int kind, pu_int more, int other)
{
    static pu_real Phi[2][30], X[200];
    static pu_op map[2];
    static int32_t level[2][40];
    pu_group group[2];
    const pu_int grid[2] = {4 + more, 3}, from[3] = {0, PU_ZERO, 1}, tied[3] = {0, 0, 1};
    const pu_real value[3] = {0, PU_R(0.1) + (pu_real)other, 0};
    const pu_edge edge[2] = {PU_EDGE_NEUMANN, PU_EDGE_NEUMANN};
    pu_part part[3] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SEASON, 4, 0}, {PU_PART_CYCLE, 0, 0}};
    double times[20];
    pu_model *inner;
    lend(model);
    for (pu_int i = 0; i < 40; i++) level[more > 0][i] = (int32_t)((i * (7 + more)) % 5);
    for (pu_int i = 0; i < 20; i++) times[i] = (double)(i * i + more * i) + 1;
    memset(group, 0, sizeof group);
    group[0].levels = 5, group[0].level = level[more > 0], group[0].name = other == 1 ? "shop" : "user";
    tc_fill_normal(3 + (uint64_t)more, 200, X);
    tc_fill_normal(4, 30, Phi[0]), tc_fill_normal(5, 30, Phi[1]);
    map[0] = pu_op_dense(5, 4, Phi[0]), map[1] = pu_op_dense(6, other ? 5 : 4, Phi[1]);
    switch (kind) {
    case 0: return pu_model_factors(model, 4 + other, 2, NULL);
    case 1: return other == 1 ? pu_model_factors(model, 4, 2, NULL) : pu_model_ppca(model, 4, 2 + other, NULL);
    case 2: return pu_model_sparse(model, &map[more || other], NULL);
    case 3: return other ? pu_model_sparse(model, &map[0], NULL) : pu_model_regression(model, &map[more > 0], NULL);
    case 4: return pu_model_neural(model, 6 + more, 2, X, 3 + other, 2, NULL);
    case 5: return pu_model_noisy_ar(model, 20 + more, 2 + other, NULL);
    case 6: return pu_model_state_space(model, 20 + more, 2 + other, PU_SSM_STATIONARY, NULL);
    case 7: return pu_model_dynamic_factors(model, 20 + more, 3, 2 + other, PU_SSM_STATIONARY, NULL);
    case 8:
        part[1].size += other % 2; /* the names are the same */
        if (other == 2) part[1].kind = PU_PART_SEASON_TRIG;
        if (other == 4) part[0].constant = 1;
        return pu_model_structural(model, 30 + more, part, 3, NULL);
    case 9:
        part[1].kind = other == 1 ? PU_PART_MATERN12 : PU_PART_MATERN32, part[1].size = 0;
        return pu_model_structural_at(model, 20, other == 2 ? NULL : times, part, other > 2 ? 1 : 2, NULL);
    case 10: return pu_model_field(model, 2, grid, edge, 1 + (other == 1), other == 2, NULL);
    case 11: return pu_model_effects(model, 40, 1, group, 2 + (other == 2), X, other > 2 ? PU_REML : PU_ML, NULL);
    case 12: return pu_model_effects(model, 40, 1, group, 2, X, other > 1 ? PU_ML : PU_REML, NULL);
    case 13: /* the second of three is fixed, at another number; or tied to the first */
        inner = inner_of(8, more);
        inner->params = 3;
        return pu_model_fix(model, inner, other == 2 ? tied : from, value, NULL);
    case 14: return pu_model_regressors(model, inner_of(other == 1 ? 13 : 5, more), 2 + (other == 2), X, 0, NULL);
    case 15:
        model->params = 10 + (other == 1), model->set = set_nothing, model->describe = other == 2 ? NULL : describe_pair;
        model->name = other == 3 ? "mine" : NULL;
        return PU_OK;
    }
    return PU_E_ARGUMENT;
}

static pu_model *inner_of(int kind, pu_int more)
{
    pu_model *inner = (pu_model *)tc_bytes(sizeof *inner);
    if (make(inner, kind, more, 0)) exit(2);
    return inner;
}

static int is_refused(const pu_model *model, const char *words)
{
    pu_real *theta = tc_reals(model->params);
    char notes[64];
    pu_report report;
    memset(notes, 'x', sizeof notes);
    tc_fill(model->params, theta, PU_R(7));
    pu_status status = pu_model_load(model, file, theta, notes, sizeof notes, &report);
    for (pu_int i = 0; i < model->params; i++)
        if (theta[i] != PU_R(7)) return 0;
    for (size_t i = 0; i < sizeof notes; i++)
        if (notes[i] != 'x') return 0;
    if (status >= 0 || !strstr(report.where.what, words)) printf("    %d %s\n", (int)status, report.where.what);
    return status < 0 && strstr(report.where.what, words);
}

TEST every_model_comes_back(void)
{
    pu_model model;
    pu_saved about;
    pu_report report;
    char notes[20];
    for (int kind = 0; kind < KINDS; kind++) {
        size_t mark = tc_kept_count;
        tc_set_case("model %d", kind);
        remove(file);
        TC_STATUS(make(&model, kind, 0, 0), PU_OK);
        pu_real *theta = tc_normal(9, model.params), *back = tc_reals(model.params);
        TC_STATUS(pu_model_save(&model, theta, "of a test", file, &report), PU_OK);
        TC_STATUS(pu_model_saved(file, &about, &report), PU_OK);
        TC_ASSERT(about.params == model.params && about.notes == 10 && about.bytes == (int)sizeof(pu_real));
        TC_ASSERT(!strcmp(about.version, PU_VERSION) && !strcmp(about.name, model.name ? model.name : ""));
        if (model.lgm.Phi) TC_ASSERT(about.rows == model.lgm.Phi->rows && about.latent == model.lgm.Phi->cols);
        /* the same again, and one for other data */
        for (pu_int more = 0; more < 3; more += 2) {
            TC_STATUS(make(&model, kind, more, 0), PU_OK);
            memset(back, 0, (size_t)model.params * sizeof *back), memset(notes, 'x', sizeof notes);
            TC_STATUS(pu_model_load(&model, file, back, notes, sizeof notes, &report), PU_OK);
            TC_ASSERT(memcmp(back, theta, (size_t)model.params * sizeof *back) == 0 && !strcmp(notes, "of a test"));
        }
        /* and those that it is not for */
        for (int other = 1; other < SIZES; other++) {
            char name[160];
            snprintf(name, sizeof name, "%s", model.name ? model.name : "");
            if (make(&model, kind, 0, other)) continue;
            if (kind == 9 && other == 2) continue; /* other times alone */
            if (kind == 15 && other == 4) continue;
            if ((kind == 10 && other > 2) || (kind == 12 && other == 3) || (kind == 14 && other > 2)) continue;
            tc_set_case("model %d, %s, other %d, %s", kind, name, other, model.name);
            TC_ASSERT(is_refused(&model, " here, ") && is_refused(&model, " in the file"));
        }
        tc_release_to(mark);
    }
    TC_ASSERT(files() == 1);
    PASS();
}

TEST what_differs_is_told(void)
{
    pu_model model;
    pu_real theta[40] = {0};
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    TC_STATUS(make(&model, 1, 0, 0), PU_OK);
    TC_ASSERT(is_refused(&model, "model file: the model is probabilistic PCA here, factor analysis in the file"));
    TC_STATUS(make(&model, 0, 0, 1), PU_OK);
    TC_ASSERT(is_refused(&model, "theta is Phi[0,0] to Phi[4,1], free here, Phi[0,0] to Phi[3,1], free in the file"));
    TC_STATUS(make(&model, 15, 0, 0), PU_OK);
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    TC_STATUS(make(&model, 15, 0, 1), PU_OK);
    TC_ASSERT(is_refused(&model, "model.params is 11 here, 10 in the file"));
    PASS();
}

/* ---- theta of many parts, of many entries ---- */

/* Blocks of sizes that are no powers of two, one of them of a single entry. */
static const pu_int ends[] = {1, 1000, 1003, 700001, 1000000};

static void describe_blocks(const pu_model *model, pu_int i, pu_param *param)
{
    int block = 0;
    (void)model;
    while (i >= ends[block]) block++;
    snprintf(param->name, sizeof param->name, "part%d[%d]", block, (int)i);
}

TEST parts_are_found(void)
{
    static const char expected[] = "parts of theta: 5\ntheta: part0[0], free\ntheta: part1[1] to part1[999], free\n"
                                   "theta: part2[1000] to part2[1002], free\ntheta: part3[1003] to part3[700000], free\n"
                                   "theta: part4[700001] to part4[999999], free\n";
    pu_model model;
    pu_real *theta = tc_reals(1000000);
    char *bytes = (char *)tc_bytes(9000000);
    memset(&model, 0, sizeof model);
    model.params = 1000000, model.describe = describe_blocks;
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    size_t size = read_file(file, bytes, 9000000), text = 2 * PU__NPY + 1000000 * sizeof *theta;
    TC_ASSERT(size > text && size < 9000000 && strstr(bytes + text, expected));
    /* a thousand parts of one entry: 64 lines */
    model.params = 1000, model.describe = describe_pair;
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    size = read_file(file, bytes, 9000000);
    TC_ASSERT(size < 1000 * sizeof *theta + 3000);
    TC_STATUS(pu_model_load(&model, file, theta, NULL, 0, NULL), PU_OK);
    PASS();
}

/* ---- notes ---- */

TEST notes_of_any_length(void)
{
    const size_t lengths[] = {0, 1, 255, 256, 257, 1000000};
    pu_model model;
    pu_real theta[16] = {0};
    pu_saved about;
    pu_report report;
    char *notes = (char *)tc_bytes(1000001), *back = (char *)tc_bytes(1000001);
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    for (int i = 0; i < 6; i++) {
        tc_set_case("%d letters", (int)lengths[i]);
        memset(notes, 0, 1000001), memset(notes, i % 2 ? '\n' : 'n', lengths[i]);
        TC_STATUS(pu_model_save(&model, theta, lengths[i] ? notes : NULL, file, &report), PU_OK);
        TC_STATUS(pu_model_saved(file, &about, &report), PU_OK);
        TC_ASSERT(about.notes == lengths[i] + 1);
        memset(back, 'x', 1000001);
        TC_STATUS(pu_model_load(&model, file, theta, back, lengths[i], &report), PU_E_SIZE);
        TC_ASSERT(back[0] == 'x' && report.where.most == (pu_int)lengths[i] + 1);
        TC_STATUS(pu_model_load(&model, file, theta, back, lengths[i] + 1, &report), PU_OK);
        TC_ASSERT(!strcmp(notes, back));
    }
    PASS();
}

/* A name with ends of lines in it, and one longer than there is room. */
TEST names_are_tamed(void)
{
    char name[400];
    pu_real theta[2] = {1, 2};
    pu_model model;
    memset(&model, 0, sizeof model);
    model.params = 2, model.name = "two\nlines: or \"more\" {with data";
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    TC_STATUS(pu_model_load(&model, file, theta, NULL, 0, NULL), PU_OK);
    model.name = "two\nlines: or \"more\" {with other data}";
    TC_STATUS(pu_model_load(&model, file, theta, NULL, 0, NULL), PU_OK);
    model.name = "two\nlines: or \"more\"  {with data";
    TC_ASSERT(is_refused(&model, "here"));
    memset(name, 'n', sizeof name), name[sizeof name - 1] = 0, model.name = name;
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    TC_STATUS(pu_model_load(&model, file, theta, NULL, 0, NULL), PU_OK);
    PASS();
}

/* ---- the other precision, the other byte order ---- */

/* The bytes of a file of this model with numbers of `width` bytes. */
static size_t of_width(const pu_model *model, const pu_real *theta, size_t width, unsigned char *bytes)
{
    FILE *to = fopen(file, "wb");
    pu__saved f = PU__ZERO;
    pu__stream length = pu__stream_make(NULL, 1), s = pu__stream_make(to, 1);
    f.model = model, f.notes = (char *)"", f.about.notes = 1, f.about.bytes = (int)width, f.about.params = model->params;
    pu__saved_value(f.about.name, model->name);
    pu__saved_text(&length, &f);
    pu__npy_head(bytes, (pu_int)width, model->params), pu__stream_pass(&s, bytes, PU__NPY);
    for (pu_int i = 0; i < model->params; i++) {
        double x = (double)theta[i];
        float y = (float)x;
        uint64_t bits = 0;
        uint32_t half;
        memcpy(&half, &y, 4), memcpy(&bits, &x, 8);
        if (width == 4) bits = half;
        for (size_t b = 0; b < width; b++) bytes[b] = (unsigned char)(bits >> 8 * b);
        pu__stream_pass(&s, bytes, width);
    }
    pu__npy_head(bytes, (pu_int)length.bytes, -1), pu__stream_pass(&s, bytes, PU__NPY);
    pu__saved_text(&s, &f);
    if (!to || fclose(to) || s.failed) return 0;
    return read_file(file, bytes, ROOM);
}

TEST other_numbers(void)
{
    unsigned char *bytes = (unsigned char *)tc_bytes(ROOM), *mine = (unsigned char *)tc_bytes(ROOM);
    pu_model model;
    pu_report report;
    pu_real theta[16], back[16] = {0};
    tc_fill_normal(1, 16, theta);
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    /* of this build: what pu_model_save writes, but for the version and sizes */
    TC_ASSERT(of_width(&model, theta, sizeof(pu_real), bytes) > 0);
    TC_STATUS(pu_model_load(&model, file, back, NULL, 0, &report), PU_OK);
    TC_ASSERT(memcmp(back, theta, sizeof theta) == 0);
    remove(file);
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK);
    TC_ASSERT(read_file(file, mine, ROOM) > 0 && memcmp(mine, bytes, PU__NPY + sizeof theta) == 0);
    /* of the other one */
    TC_ASSERT(of_width(&model, theta, 12 - sizeof(pu_real), bytes) > 0);
    memset(back, 0, sizeof back);
    TC_STATUS(pu_model_load(&model, file, back, NULL, 0, &report), PU_TEST_PICK(PU_OK, PU_INEXACT));
    for (int i = 0; i < 16; i++) TC_ASSERT(back[i] == (pu_real)(float)theta[i]);
    if (sizeof(pu_real) == 4) TC_ASSERT(strstr(report.where.what, "rounded to float"));
    /* numbers that this build does not have */
    theta[5] = (pu_real)NAN;
    TC_ASSERT(of_width(&model, theta, sizeof(pu_real), bytes) > 0);
    TC_STATUS(pu_model_load(&model, file, back, NULL, 0, &report), PU_E_NONFINITE);
    TC_ASSERT(report.where.index == 5 && is_refused(&model, "theta"));
    theta[5] = 0;
    TC_ASSERT(of_width(&model, theta, 8, bytes) > 0);
    /* big-endian, as numpy would write it: '>f8' */
    mine[21] = '>';
    TC_ASSERT(write_file(file, mine, ROOM / 2));
    TC_ASSERT(is_refused(&model, "model file: in the other byte order"));
    PASS();
}

/* ---- what is not a saved model ---- */

TEST what_is_none(void)
{
    static const char table[] = "year,ratings\n1999,3\n";
    unsigned char *bytes = (unsigned char *)tc_bytes(ROOM);
    pu_model model;
    pu_real theta[16] = {0};
    pu_saved about;
    pu_report report;
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    TC_ASSERT(is_refused(&model, "model file: there is none"));
    TC_STATUS(pu_model_saved(file, &about, &report), PU_E_FILE);
    TC_ASSERT(write_file(file, table, sizeof table) && is_refused(&model, "not a saved model"));
    TC_ASSERT(write_file(file, table, 0) && is_refused(&model, "not a saved model"));
    TC_STATUS(pu_model_save(&model, theta, NULL, file, NULL), PU_OK); /* in the place of an empty file */
    size_t size = read_file(file, bytes, ROOM);
    TC_ASSERT(write_file(file, bytes, PU__NPY + sizeof theta)); /* numpy.save of theta */
    TC_ASSERT(is_refused(&model, "damaged"));
    bytes[size] = 'x';
    TC_ASSERT(write_file(file, bytes, size + 1) && is_refused(&model, "damaged"));
    bytes[2 * PU__NPY + sizeof theta + 10] = '2';
    TC_ASSERT(write_file(file, bytes, size) && is_refused(&model, "of a later version of the library"));
    remove(file);
    TC_ASSERT(mkdir(file, 0700) == 0 && is_refused(&model, "not a regular file"));
    remove(file);
    TC_ASSERT(mkfifo(file, 0600) == 0);
    alarm(60); /* nobody writes to it */
    TC_ASSERT(is_refused(&model, "not a regular file"));
    alarm(0);
    TC_STATUS(pu_model_load(&model, "", theta, NULL, 0, &report), PU_E_FILE);
    TC_STATUS(pu_model_load(NULL, file, theta, NULL, 0, &report), PU_E_NULL);
    TC_STATUS(pu_model_load(&model, NULL, theta, NULL, 0, &report), PU_E_NULL);
    TC_STATUS(pu_model_load(&model, file, NULL, NULL, 0, NULL), PU_E_NULL);
    TC_STATUS(pu_model_save(&model, NULL, NULL, file, NULL), PU_E_NULL);
    TC_STATUS(pu_model_saved(NULL, &about, NULL), PU_E_NULL);
    PASS();
}

/* Cut off anywhere, and with any byte changed: refused, and nothing of the caller's is touched. */
TEST damage_is_seen(void)
{
    unsigned char *bytes = (unsigned char *)tc_bytes(ROOM);
    pu_model model;
    pu_real theta[16];
    tc_fill_normal(2, 16, theta);
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    TC_STATUS(pu_model_save(&model, theta, "of a test", file, NULL), PU_OK);
    size_t size = read_file(file, bytes, ROOM);
    for (size_t i = 0; i < size; i++) {
        size_t mark = tc_kept_count;
        tc_set_case("byte %d", (int)i);
        TC_ASSERT(write_file(file, bytes, i) && is_refused(&model, "model file: "));
        bytes[i] ^= (unsigned char)(1 << i % 8);
        TC_ASSERT(write_file(file, bytes, size) && is_refused(&model, ""));
        bytes[i] ^= (unsigned char)(1 << i % 8);
        tc_release_to(mark);
    }
    TC_ASSERT(write_file(file, bytes, size));
    TC_STATUS(pu_model_load(&model, file, theta, NULL, 0, NULL), PU_OK);
    PASS();
}

/* The checksum made anew: whatever the text says, nothing is read or written that is not there. Numbers of any size, lines of any length. */
TEST forged_text(void)
{
    static const char *const text[] = {
        "parameters: 99999999999999999999", "parameters: -1", "parameters: 17", "parameters: ", "latent variables: x",
        "parts of theta: 0", "parts of theta: 65", "parts of theta: 1", "parts of theta: 9999999999999",
        "bytes of notes below: 999999999999999", "bytes of notes below: 0", "bytes of notes below: 10", "bytes of notes below: 8",
        "model: factor analysis\nmodel: factor analysis", "theta: ", "# theta: ", "numbers: float", "rows of y: 0", "made by pu.h: "};
    unsigned char *bytes = (unsigned char *)tc_bytes(ROOM), *forged = (unsigned char *)tc_bytes(ROOM);
    const size_t at = 2 * PU__NPY + 16 * sizeof(pu_real);
    pu_model model;
    pu_saved about;
    pu_real theta[16] = {0};
    uint32_t word = 1;
    int taken = 0;
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    TC_STATUS(pu_model_save(&model, theta, "of a test", file, NULL), PU_OK);
    size_t size = read_file(file, bytes, ROOM), end = size - 27; /* before the checksum */
    for (int round = 0; round < 19 + 3000; round++) {
        size_t from = at, to = at, length = 0, total;
        char notes[16], sum[40];
        uint64_t h = PU__FNV;
        tc_set_case("round %d", round);
        if (round < 19) { /* the line of that key */
            size_t key = strcspn(text[round], ":");
            for (; from < end && memcmp(bytes + from, text[round] + (text[round][0] == '#' ? 2 : 0), key - (text[round][0] == '#' ? 2 : 0)); from++) {}
            TC_ASSERT(from < end);
            for (to = from; bytes[to] != '\n'; to++) {}
            length = strlen(text[round]);
            memcpy(forged, bytes, from), memcpy(forged + from, text[round], length);
        } else { /* some bytes become others, are left out or come twice */
            word = word * 1664525u + 1013904223u;
            from = (round % 2 ? at : 0) + (word >> 8) % (end - (round % 2 ? at : 0));
            to = from + (word >> 28) % 4 + (round % 97 == 0 ? 300 : 0);
            if (to > end) to = end;
            memcpy(forged, bytes, from);
            for (; length < (word >> 26) % 4 + (round % 89 == 0 ? 400u : 0u); length++) {
                word = word * 1664525u + 1013904223u;
                forged[from + length] = round % 3 ? (unsigned char)(word >> 24) : (unsigned char)"0123456789:\n{}<'"[word >> 28];
            }
        }
        memcpy(forged + from + length, bytes + to, end - to);
        total = from + length + end - to;
        if (round % 2 && total > at) pu__npy_head(forged + at - PU__NPY, (pu_int)(total - at) + 27, -1);
        h = pu__fnv(h, forged, total);
        snprintf(sum, sizeof sum, "checksum: %08lx%08lx\n", (unsigned long)(h >> 32), (unsigned long)(h & 0xffffffffu));
        memcpy(forged + total, sum, 27);
        TC_ASSERT(write_file(file, forged, total + 27));
        pu_status status = pu_model_load(&model, file, theta, notes, sizeof notes, NULL);
        TC_ASSERT(status == PU_OK || status == PU_E_FILE || status == PU_E_NONFINITE || status == PU_E_SIZE);
        TC_ASSERT(pu_model_saved(file, &about, NULL) == PU_OK || status != PU_OK);
        taken += status == PU_OK;
    }
    TC_ASSERT(taken > 0); /* changed notes, say, with a sum that is right */
    PASS();
}

TEST random_bytes(void)
{
    unsigned char *bytes = (unsigned char *)tc_bytes(ROOM);
    uint32_t word = 1;
    pu_model model;
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    for (int round = 0; round < 300; round++) {
        size_t mark = tc_kept_count, size = (size_t)round * 5;
        for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)((word = word * 1664525u + 1013904223u) >> 24);
        if (round % 2 && size >= PU__NPY) pu__npy_head(bytes, 8, round % 3 ? 16 : (pu_int)1 << 40);
        if (round % 4 == 3 && size >= 3 * PU__NPY) pu__npy_head(bytes + PU__NPY + 128, (pu_int)1 << 40, -1);
        TC_ASSERT(write_file(file, bytes, size) && is_refused(&model, ""));
        tc_release_to(mark);
    }
    PASS();
}

/* ---- what cannot be written ---- */

/* In a process of its own, whose files may not grow above 300 bytes. */
static int fails_on_a_full_disk(const pu_model *model, const pu_real *theta)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {300, 300};
        pu_report report;
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit)) _exit(1);
        if (pu_model_save(model, theta, NULL, file, &report) != PU_E_FILE) _exit(2);
        _exit(strstr(report.where.what, "model file: cannot be written") == NULL);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST what_cannot_be_written_leaves_the_old_one(void)
{
    unsigned char *bytes = (unsigned char *)tc_bytes(ROOM);
    pu_model model;
    pu_report report;
    pu_real first[16], second[16], back[16];
    struct stat about;
    char other[200];
    tc_fill_normal(1, 16, first), tc_fill_normal(2, 16, second);
    TC_STATUS(make(&model, 0, 0, 0), PU_OK);
    TC_STATUS(pu_model_save(&model, first, "1", file, &report), PU_OK);
    TC_ASSERT(chmod(file, 0640) == 0);
    TC_ASSERT(fails_on_a_full_disk(&model, second) && files() == 1);
    TC_STATUS(pu_model_load(&model, file, back, NULL, 0, &report), PU_OK);
    TC_ASSERT(memcmp(back, first, sizeof first) == 0);
    second[3] = (pu_real)INFINITY;
    TC_STATUS(pu_model_save(&model, second, "2", file, &report), PU_E_NONFINITE);
    TC_ASSERT(report.where.index == 3);
    second[3] = 1;
    TC_STATUS(pu_model_save(&model, second, "2", file, &report), PU_OK);
    TC_STATUS(pu_model_load(&model, file, back, NULL, 0, &report), PU_OK);
    TC_ASSERT(memcmp(back, second, sizeof second) == 0);
    TC_ASSERT(stat(file, &about) == 0 && (about.st_mode & 0777) == 0640);
    tc_set_case("by a link");
    TC_ASSERT(symlink("model", in_directory("link")) == 0);
    TC_STATUS(pu_model_save(&model, first, "3", in_directory("link"), &report), PU_OK);
    TC_ASSERT(lstat(in_directory("link"), &about) == 0 && S_ISLNK(about.st_mode));
    TC_STATUS(pu_model_load(&model, in_directory("link"), back, NULL, 0, &report), PU_OK);
    TC_ASSERT(memcmp(back, first, sizeof first) == 0);
    tc_set_case("no such directory");
    TC_STATUS(pu_model_save(&model, first, NULL, in_directory("nowhere/model"), &report), PU_E_FILE);
    TC_ASSERT(strstr(report.where.what, "cannot be opened"));
    tc_set_case("an array of somebody else's, and a damaged model");
    size_t size = read_file(file, bytes, ROOM);
    snprintf(other, sizeof other, "%s", in_directory("array.npy"));
    for (int i = 0; i < 2; i++) {
        size_t left = i ? size - 1 : PU__NPY + sizeof first;
        TC_ASSERT(write_file(other, bytes, left));
        TC_STATUS(pu_model_save(&model, first, NULL, other, &report), PU_E_FILE);
        TC_ASSERT(strstr(report.where.what, "is no saved model; it is not replaced"));
        TC_ASSERT(read_file(other, bytes, ROOM) == left);
    }
    tc_set_case("write-protected");
    TC_ASSERT(chmod(file, 0444) == 0);
    if (geteuid() != 0) {
        TC_STATUS(pu_model_save(&model, first, NULL, file, &report), PU_E_FILE);
        TC_ASSERT(strstr(report.where.what, "cannot be written"));
    }
    TC_ASSERT(files() == 3);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_SETUP_CB(enter, NULL);
    GREATEST_SET_TEARDOWN_CB(leave, NULL);
    RUN_TEST(every_model_comes_back);
    RUN_TEST(what_differs_is_told);
    RUN_TEST(parts_are_found);
    RUN_TEST(notes_of_any_length);
    RUN_TEST(names_are_tamed);
    RUN_TEST(other_numbers);
    RUN_TEST(what_is_none);
    RUN_TEST(damage_is_seen);
    RUN_TEST(forged_text);
    RUN_TEST(random_bytes);
    RUN_TEST(what_cannot_be_written_leaves_the_old_one);
    PU_TEST_MAIN_END();
}

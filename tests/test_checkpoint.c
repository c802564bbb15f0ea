/* test_checkpoint.c - the files of pu_fit on a system with POSIX: what differs is named, more steps may be asked for, two
   writers do not disturb each other, links are followed, what is no checkpoint is not replaced, what cannot be written
   shows before the first step, and no forged number is believed. That a break leaves no trace is in test_fit.c, which
   is also the test of these files in plain C99. */
#define _POSIX_C_SOURCE 200809L
#define PU_IMPLEMENTATION
#include "pu_test.h"
#include "test_common.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

enum { M = 4, D = 2, N = 12, PARAMS = M * D + 2 * M, NUMBERS = 36 };

static char directory[64]; /* of this run */
static char names[16][200]; /* in it, by turns */
static char state[200];     /* the file of make_fit */

/* The name of a file in the directory. */
static const char *in_directory(const char *name)
{
    static int turn;
    char *path = names[turn++ % 16];
    snprintf(path, sizeof names[0], "%s/%s", directory, name);
    return path;
}

typedef struct {
    pu_real y[N * M], start[PARAMS], theta[PARAMS];
    pu_model model;
    pu_data data;
    pu_fit_options o;
    pu_fit_report report;
} fit;

/* Factor analysis by mini-batches, with a checkpoint at every step. The memory is that of the test. */
static int make_fit(fit *f, pu_int steps)
{
    memset(f, 0, sizeof *f);
    tc_fill_normal(1, N * M, f->y);
    pu_workspace_block(&f->model.memory, tc_bytes(20000), 20000);
    f->data = pu_data_full(N, M, f->y);
    f->o.steps = steps;
    f->o.batch = 5;
    f->o.gradient.samples = 2;
    f->o.gradient.solve.iterations = 3;
    f->o.gradient.threads = 1;
    f->o.checkpoint = state;
    f->o.checkpoint_every = 1;
    return !pu_model_factors(&f->model, M, D, NULL) && !pu_model_start(&f->model, &f->data, 1, f->start, NULL);
}

/* Runs it from the start, or from its file. */
static pu_status run(fit *f)
{
    memcpy(f->theta, f->start, sizeof f->theta);
    return pu_fit(&f->model, &f->data, &f->o, NULL, f->theta, &f->report);
}

static int is_told(const fit *f, const char *words) { return strstr(f->report.where.what, words) != NULL; }

/* Refused before the first step, for this reason; theta is as it was. */
static int is_refused(fit *f, const char *words)
{
    return run(f) == PU_E_FILE && is_told(f, words) && f->report.step == 0 && f->report.gradients == 0 &&
           memcmp(f->theta, f->start, sizeof f->theta) == 0;
}

static size_t read_file(const char *path, void *to, size_t most)
{
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(to, 1, most, file) : 0;
    if (file) fclose(file);
    return size;
}

/* Where the numbers of a checkpoint begin: behind the empty line. */
static size_t text_end(const unsigned char *bytes, size_t size)
{
    for (size_t i = 1; i < size; i++)
        if (bytes[i] == '\n' && bytes[i - 1] == '\n') return i + 1;
    return size;
}

static int write_file(const char *path, const void *from, size_t size)
{
    FILE *file = fopen(path, "wb");
    int ok = file && fwrite(from, 1, size, file) == size;
    return file && !fclose(file) && ok;
}

/* How many files there are in the directory: no more than expected, if nothing was left behind. */
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

static void enter(void *unused)
{
    (void)unused;
    strcpy(directory, "/tmp/pu_checkpoint.XXXXXX");
    if (!mkdtemp(directory)) exit(2);
    snprintf(state, sizeof state, "%s/state", directory);
}

static void leave(void *unused)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command)) exit(2);
    tc_release(unused);
}

/* ---- what must agree ---- */

static double validate(pu_model *model, const pu_real *theta, void *user)
{
    (void)model, (void)user;
    return (double)theta[0];
}

/* Changes one thing, and returns how it is called. */
static const char *change(fit *f, int which)
{
    pu_fit_options *o = &f->o;
    switch (which) {
    case 0: o->rate = 0.03; return "checkpoint: fit.rate is 0.03 here, 0.1 in the checkpoint";
    case 1: o->optimizer = PU_SGD; return "checkpoint: fit.optimizer is SGD here, Adam in the checkpoint";
    case 2: o->schedule = PU_RATE_TAIL; return "fit.schedule is tail here, constant in";
    case 3: o->beta2 = 0.99; return "fit.beta2";
    case 4: o->epsilon = 1e-6; return "fit.epsilon is 1e-06 here, 1e-08 in";
    case 5: o->batch = 4; return "fit.batch";
    case 6: o->accumulate = 2; return "fit.accumulate";
    case 7: o->fixed_probes = 1; return "fit.fixed_probes is yes here, no in";
    case 8: o->tolerance = 1e-6; return "fit.tolerance";
    case 9: o->gradient.seed = 1; return "fit.gradient.seed modulo 2^32 is 1 here, 0 in";
    case 10: o->gradient.seed = (uint64_t)1 << 40; return "fit.gradient.seed";
    case 11: o->gradient.lanes = 3; return "fit.gradient.lanes";
    case 12: o->gradient.samples = 4; return "fit.gradient.samples";
    case 13: o->gradient.kind = PU_OUTPUT; return "fit.gradient.kind";
    case 14: o->gradient.solve.iterations = 4; return "fit.gradient.solve.iterations";
    case 15: o->gradient.solve.solver = PU_PCG; return "fit.gradient.solve.solver";
    case 16: o->gradient.solve.adjoint = PU_ADJOINT_SHORTCUT; return "fit.gradient.solve.adjoint";
    case 17: o->gradient.solve.tape_every = 2; return "fit.gradient.solve.tape_every";
    case 18: o->validate = validate; return "fit.validate";
    case 19: f->data.n = N - 1; return "number of data is 11 here, 12 in the checkpoint";
    case 20: f->model.name = "another"; return "checkpoint: model is another here, factor analysis in the checkpoint";
    case 21: o->gradient.engine = PU_ITERATIVE; return "fit.gradient.engine";
    case 22: o->gradient.no_control_variate = 1; return "fit.gradient.no_control_variate";
    }
    return NULL;
}

TEST what_differs_is_named(void)
{
    fit f;
    int which;
    TC_ASSERT(make_fit(&f, 4));
    TC_STATUS(run(&f), PU_OK);
    for (which = 0; make_fit(&f, 8) && change(&f, which); which++) {
        tc_set_case("%s", change(&f, which));
        f.o.resume = 1;
        TC_ASSERT(is_refused(&f, change(&f, which)));
    }
    TC_ASSERT(which == 23);
    tc_set_case("defaults, written out; threads, and how often");
    TC_ASSERT(make_fit(&f, 4));
    f.o.resume = 1, f.o.rate = 0.1, f.o.beta1 = 0.9, f.o.gradient.lanes = 4, f.o.gradient.threads = 2;
    f.o.checkpoint_every = 3;
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 4 && f.report.step == 4);
    PASS();
}

TEST a_finished_run_may_go_on(void)
{
    fit f, whole;
    TC_ASSERT(make_fit(&whole, 10));
    whole.o.checkpoint = NULL, whole.o.checkpoint_every = 0;
    TC_STATUS(run(&whole), PU_OK);
    TC_ASSERT(make_fit(&f, 6));
    TC_STATUS(run(&f), PU_OK);
    f.o.steps = 10, f.o.resume = 1;
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 6 && f.report.step == 10);
    TC_ASSERT(memcmp(f.theta, whole.theta, sizeof f.theta) == 0);
    f.o.steps = 9;
    TC_ASSERT(run(&f) == PU_E_FILE && is_told(&f, "more steps than fit.steps: 10, not 9"));
    tc_set_case("schedules that depend on the last step");
    TC_ASSERT(make_fit(&f, 6));
    f.o.schedule = PU_RATE_COSINE;
    TC_STATUS(run(&f), PU_OK);
    f.o.steps = 10, f.o.resume = 1;
    TC_ASSERT(is_refused(&f, "fit.steps (schedule or next start need it) is 10 here, 6 in"));
    f.o.steps = 6, f.o.resume = 0, f.o.schedule = PU_RATE_HYPERBOLIC;
    TC_STATUS(run(&f), PU_OK);
    f.o.steps = 10, f.o.resume = 1;
    TC_ASSERT(is_refused(&f, "fit.decay (by default of fit.steps) is 1 here, 0.6 in"));
    f.o.steps = 6, f.o.resume = 0, f.o.decay = 3;
    TC_STATUS(run(&f), PU_OK);
    f.o.steps = 10, f.o.resume = 1;
    TC_STATUS(run(&f), PU_OK);
    PASS();
}

/* K and I are chosen once, and are those of the file afterwards. */
TEST chosen_numbers_are_kept(void)
{
    fit f, whole;
    TC_ASSERT(make_fit(&whole, 6));
    whole.o.checkpoint = NULL, whole.o.checkpoint_every = 0;
    whole.o.gradient.samples = whole.o.gradient.solve.iterations = PU_CHOOSE;
    whole.o.gradient.error = 0.5;
    TC_STATUS(run(&whole), PU_OK);
    TC_ASSERT(make_fit(&f, 3));
    f.o.gradient = whole.o.gradient;
    TC_STATUS(run(&f), PU_OK);
    f.o.steps = 6, f.o.resume = 1;
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 3 && f.report.last.samples == whole.report.last.samples);
    TC_ASSERT(memcmp(f.theta, whole.theta, sizeof f.theta) == 0);
    PASS();
}

/* ---- other writers, links, other files ---- */

/* Two processes write the same file at every step. It is whole whenever a third one looks, and nothing is left behind. */
TEST two_writers(void)
{
    fit f;
    const char *copy = in_directory("copy");
    pid_t writer[2];
    int seen = 0, running = 2, looks = 0, status;
    TC_ASSERT(make_fit(&f, 200));
    for (int i = 0; i < 2; i++) {
        writer[i] = fork();
        TC_ASSERT(writer[i] >= 0);
        if (writer[i] == 0) _exit(run(&f) != PU_OK);
    }
    f.o.resume = 1;
    /* a copy of the file is taken up and finished, unless the file is not there yet */
    tc_set_case("two writers");
    while (running && looks++ < 60000) {
        const struct timespec moment = {0, 1000000};
        unsigned char bytes[20000];
        size_t size = read_file(f.o.checkpoint, bytes, sizeof bytes);
        nanosleep(&moment, NULL);
        if (size) {
            fit reader;
            TC_ASSERT(write_file(copy, bytes, size) && make_fit(&reader, 200));
            reader.o.checkpoint = copy, reader.o.resume = 1, reader.o.checkpoint_every = 1000;
            TC_STATUS(run(&reader), PU_OK);
            TC_ASSERT(reader.report.resumed > 0);
            seen++;
        }
        for (int i = 0; i < 2; i++)
            if (writer[i] && waitpid(writer[i], &status, WNOHANG) == writer[i]) {
                TC_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
                writer[i] = 0;
                running--;
            }
    }
    TC_ASSERT(running == 0 && seen > 0);
    TC_ASSERT(files() == 2);
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 200);
    PASS();
}

/* Files that look like those of another writer stay, also when writing fails. */
TEST the_files_of_others_stay(void)
{
    static const char mine[] = "mine";
    char other[300], got[8] = "";
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    snprintf(other, sizeof other, "%s.new0-%ld", f.o.checkpoint, (long)getpid());
    TC_ASSERT(write_file(other, mine, sizeof mine));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(read_file(other, got, sizeof got) == sizeof mine && strcmp(got, mine) == 0);
    TC_ASSERT(files() == 2);
    PASS();
}

TEST links_are_followed(void)
{
    char link_[200], target[200];
    struct stat about;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    snprintf(link_, sizeof link_, "%s", in_directory("link"));
    snprintf(target, sizeof target, "%s", in_directory("elsewhere/state"));
    TC_ASSERT(mkdir(in_directory("elsewhere"), 0700) == 0);
    /* relative, and to nothing yet; then by way of a second, absolute one */
    TC_ASSERT(symlink("elsewhere/state", link_) == 0);
    TC_ASSERT(symlink(link_, in_directory("link2")) == 0);
    for (int i = 0; i < 2; i++) {
        f.o.checkpoint = i ? in_directory("link2") : link_;
        f.o.resume = i;
        f.o.steps = 3 + 2 * i;
        TC_STATUS(run(&f), PU_OK);
        TC_ASSERT(f.report.resumed == 3 * i);
        TC_ASSERT(lstat(f.o.checkpoint, &about) == 0 && S_ISLNK(about.st_mode));
        TC_ASSERT(lstat(target, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 100);
    }
    tc_set_case("a circle");
    TC_ASSERT(unlink(in_directory("link2")) == 0 && symlink("link2", in_directory("link2")) == 0);
    f.o.checkpoint = in_directory("link2"), f.o.resume = 0;
    TC_ASSERT(is_refused(&f, "not a regular file"));
    PASS();
}

TEST what_is_no_checkpoint_is_not_replaced(void)
{
    static const char text[] = "year,ratings\n1999,3\n";
    char got[sizeof text] = "";
    struct stat about;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    tc_set_case("a directory");
    TC_ASSERT(mkdir(f.o.checkpoint, 0700) == 0);
    TC_ASSERT(is_refused(&f, "not a regular file"));
    TC_ASSERT(stat(f.o.checkpoint, &about) == 0 && S_ISDIR(about.st_mode));
    tc_set_case("a pipe");
    f.o.checkpoint = in_directory("pipe");
    TC_ASSERT(mkfifo(f.o.checkpoint, 0600) == 0);
    TC_ASSERT(is_refused(&f, "not a regular file"));
    f.o.resume = 1; /* nobody writes to it: reading would wait for ever */
    alarm(60);
    TC_ASSERT(is_refused(&f, "not a regular file"));
    alarm(0);
    f.o.resume = 0;
    tc_set_case("devices");
    f.o.checkpoint = "/dev/full";
    TC_ASSERT(is_refused(&f, "not a regular file"));
    f.o.checkpoint = in_directory("link");
    TC_ASSERT(symlink("/dev/null", f.o.checkpoint) == 0);
    TC_ASSERT(is_refused(&f, "not a regular file"));
    TC_ASSERT(stat("/dev/full", &about) == 0 && S_ISCHR(about.st_mode));
    tc_set_case("a table");
    f.o.checkpoint = in_directory("table.csv");
    TC_ASSERT(write_file(f.o.checkpoint, text, sizeof text));
    TC_ASSERT(is_refused(&f, "is no checkpoint"));
    TC_ASSERT(read_file(f.o.checkpoint, got, sizeof got) == sizeof text && strcmp(got, text) == 0);
    f.o.resume = 1;
    TC_ASSERT(is_refused(&f, "is no checkpoint"));
    tc_set_case("an empty file");
    f.o.checkpoint = in_directory("empty"), f.o.resume = 0;
    TC_ASSERT(write_file(f.o.checkpoint, text, 0));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(files() == 5);
    PASS();
}

/* In a process of its own, which root gives to nobody: a checkpoint that is there and cannot be read is neither left out of
   account, with the fit begun anew, nor replaced. */
TEST what_cannot_be_read_is_not_replaced(void)
{
    int status;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(chmod(state, 0) == 0 && chmod(directory, 0777) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534)) _exit(1);
        if (!is_refused(&f, "cannot be read")) _exit(2);
        f.o.resume = 1;
        if (!is_refused(&f, "cannot be read")) _exit(3);
        _exit(0);
    }
    TC_ASSERT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    TC_ASSERT(files() == 1);
    PASS();
}

/* The same for one that is write-protected, in a directory where all may write: other programs do not replace it, either.
   What needs no writing works. */
TEST what_is_write_protected_is_not_replaced(void)
{
    struct stat before, after;
    int status;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(chmod(state, 0444) == 0 && chmod(directory, 0777) == 0 && stat(state, &before) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534)) _exit(1);
        if (!is_refused(&f, "cannot be written")) _exit(2);
        f.o.resume = 1;
        if (run(&f) != PU_OK || f.report.resumed != 3) _exit(3); /* it is at its end */
        f.o.steps = 5;
        if (run(&f) != PU_E_FILE || !is_told(&f, "cannot be written") || f.report.step != 3) _exit(4);
        _exit(0);
    }
    TC_ASSERT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    TC_ASSERT(stat(state, &after) == 0 && after.st_ino == before.st_ino && after.st_mode == before.st_mode);
    TC_ASSERT(files() == 1);
    PASS();
}

/* A checkpoint that few may read stays so when it is replaced, and so does its replacement while it is written; one that all may write,
   against the umask, as well. A new one has the rights of new files. */
static mode_t seen_mode;

static int look_at_files(const pu_fit_report *now, void *user)
{
    struct stat about;
    (void)now, (void)user;
    if (stat(state, &about) == 0) seen_mode |= about.st_mode & 0777;
    return 0;
}

TEST rights_are_kept(void)
{
    static const mode_t modes[] = {0600, 0640, 0666};
    struct stat before, after;
    mode_t mask = umask(022);
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(stat(state, &before) == 0 && (before.st_mode & 0777) == 0644);
    for (int i = 0; i < 3; i++) {
        TC_ASSERT(chmod(state, modes[i]) == 0 && stat(state, &before) == 0);
        seen_mode = 0;
        f.o.progress = look_at_files;
        TC_STATUS(run(&f), PU_OK);
        TC_ASSERT(stat(state, &after) == 0 && (after.st_mode & 07777) == modes[i] && seen_mode == modes[i]);
        TC_ASSERT(after.st_ino != before.st_ino || after.st_mtime >= before.st_mtime);
    }
    umask(mask);
    TC_ASSERT(files() == 1);
    PASS();
}

/* A fit of few parameters, one of which goes to its boundary: leaps and Newton steps leave no trace of a break either. Broken off
   after each of its steps, and at its end, it goes on to the same end. */
TEST few_parameters_break_off_anywhere(void)
{
    enum { T = 150 };
    static const pu_part parts[] = {{PU_PART_LEVEL, 0, 0}, {PU_PART_SLOPE, 0, 0}, {PU_PART_SEASON, 4, 0}};
    pu_real y[T] = {0}, start[4] = {0, PU_R(-20), PU_R(-2), PU_R(0.5)}, end[4], theta[4];
    pu_data data = pu_data_full(1, T, y);
    pu_fit_options o;
    pu_fit_report whole, part;
    pu_model model;
    memset(&model, 0, sizeof model), memset(&o, 0, sizeof o);
    pu_workspace_block(&model.memory, tc_bytes(20000), 20000);
    TC_STATUS(pu_model_structural(&model, T, parts, 3, NULL), PU_OK);
    TC_STATUS(pu_model_simulate(&model, start, 1, 1, NULL, NULL, y, NULL), PU_OK);
    TC_STATUS(pu_model_start(&model, &data, 0, start, NULL), PU_OK);
    memcpy(end, start, sizeof end);
    TC_STATUS(pu_fit(&model, &data, &o, NULL, end, &whole), PU_OK);
    TC_ASSERT(whole.stop == PU_FIT_BOUNDARY && whole.step > 3 && whole.best_step <= whole.step);
    o.checkpoint = state, o.checkpoint_every = 1;
    for (pu_int steps = 1; steps <= whole.step; steps++)
        for (int again = 0; again < 2; again++) {
            tc_set_case("%d steps%s", (int)steps, again ? ", then from the end" : "");
            if (!again) {
                memcpy(theta, start, sizeof theta);
                o.steps = steps, o.resume = 0;
                TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &part), PU_OK);
            }
            memcpy(theta, start, sizeof theta);
            o.steps = 200, o.resume = 1;
            TC_STATUS(pu_fit(&model, &data, &o, NULL, theta, &part), PU_OK);
            TC_ASSERT(memcmp(theta, end, sizeof end) == 0 && part.objective == whole.objective);
            if (!again) TC_ASSERT(part.gradients == whole.gradients || steps == whole.step);
        }
    remove(state);
    PASS();
}

/* ---- what cannot be written ---- */

static int limit_files(const pu_fit_report *now, void *user)
{
    struct rlimit limit = {100, 100};
    if (now->step == 2) *(int *)user = setrlimit(RLIMIT_FSIZE, &limit);
    return 0;
}

/* In a process of its own, whose files may not grow above 100 bytes: from the start, or from the second step on. */
static int fails_on_a_full_disk(fit *f, int from_the_start)
{
    int status, failed = 0;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {100, 100};
        signal(SIGXFSZ, SIG_IGN);
        f->o.progress = limit_files, f->o.user = &failed;
        if (from_the_start && (setrlimit(RLIMIT_FSIZE, &limit) || !is_refused(f, "cannot be written"))) _exit(1);
        if (!from_the_start && (run(f) != PU_E_FILE || failed || !is_told(f, "cannot be written"))) _exit(2);
        if (!from_the_start && f->report.step != 2) _exit(3);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST what_cannot_be_written_shows_at_the_start(void)
{
    char long_name[2000];
    fit f;
    TC_ASSERT(make_fit(&f, 6));
    tc_set_case("no such directory");
    f.o.checkpoint = in_directory("nowhere/state");
    TC_ASSERT(is_refused(&f, "cannot be opened"));
    tc_set_case("the directory is a file");
    TC_ASSERT(write_file(in_directory("plain"), "", 0));
    f.o.checkpoint = in_directory("plain/state");
    TC_ASSERT(is_refused(&f, "cannot be opened"));
    tc_set_case("no name");
    f.o.checkpoint = "";
    TC_ASSERT(is_refused(&f, "empty"));
    tc_set_case("a name too long");
    memset(long_name, 'x', sizeof long_name), long_name[sizeof long_name - 1] = 0;
    f.o.checkpoint = long_name;
    TC_ASSERT(is_refused(&f, "too long"));
    /* for the file system: the name itself, and the name with what is appended to it */
    for (int letters = 300; letters >= 250; letters -= 50) {
        int used = snprintf(long_name, sizeof long_name, "%s/", directory);
        memset(long_name + used, 'x', (size_t)letters), long_name[used + letters] = 0;
        tc_set_case("%d letters", letters);
        TC_ASSERT(is_refused(&f, "too long"));
    }
    if (geteuid() != 0) {
        tc_set_case("a directory that may not be written to");
        TC_ASSERT(mkdir(in_directory("locked"), 0500) == 0);
        f.o.checkpoint = in_directory("locked/state");
        TC_ASSERT(is_refused(&f, "cannot be opened"));
    }
    tc_set_case("a full disk");
    f.o.checkpoint = in_directory("full");
    TC_ASSERT(fails_on_a_full_disk(&f, 1));
    TC_ASSERT(files() == (geteuid() != 0 ? 2 : 1));
    tc_set_case("full on the way");
    TC_ASSERT(fails_on_a_full_disk(&f, 0));
    TC_ASSERT(files() == (geteuid() != 0 ? 3 : 2));
    f.o.resume = 1; /* the step before is there, whole */
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 1 && f.report.step == 6);
    PASS();
}

/* ---- forged files ---- */

/* Which of the numbers of a file are counts, or compared as such; the others are values, of which any is possible, but
   for `best`, `mark` and `rested`, which are no NaN. */
static const char is_count[NUMBERS + 1] = "111101011100000001110011111111111111";
/* Counts of which a thousand million is as good as any. */
static const char is_unlimited[NUMBERS + 1] = "010100000100000000010000000011111001";

/* Every number of the file of a fit, replaced in turn by values that no fit writes, with the checksum made anew. */
static greatest_test_res forged(fit *f)
{
    const double bad[] = {-1e18, -2, -0.5, 0.5, 1e9, 1e18, 1e308, (double)INFINITY, -(double)INFINITY, (double)NAN};
    unsigned char bytes[20000];
    size_t size, at;
    uint64_t h;
    f->o.steps = 3, f->o.resume = 0;
    TC_STATUS(run(f), PU_OK);
    size = read_file(f->o.checkpoint, bytes, sizeof bytes);
    at = text_end(bytes, size);
    TC_ASSERT(size > at + 8 * NUMBERS && size < sizeof bytes);
    TC_ASSERT(offsetof(pu__fit, model) == 8 * NUMBERS);
    h = pu__fnv(PU__FNV, bytes + at, size - at - 8);
    TC_ASSERT(memcmp(&h, bytes + size - 8, 8) == 0);
    f->o.steps = 6, f->o.resume = 1;
    for (int i = 0; i < NUMBERS; i++)
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            unsigned char forged_[sizeof bytes];
            int any = is_count[i] == '0' || (bad[j] == 1e9 && is_unlimited[i] == '1');
            memcpy(forged_, bytes, size);
            memcpy(forged_ + at + 8 * (size_t)i, &bad[j], 8);
            h = pu__fnv(PU__FNV, forged_ + at, size - at - 8);
            memcpy(forged_ + size - 8, &h, 8);
            tc_set_case("number %d is %g", i, bad[j]);
            TC_ASSERT(write_file(f->o.checkpoint, forged_, size));
            (void)run(f); /* a value: no crash, whatever comes of it */
            if (!any) TC_ASSERT(f->report.status == PU_E_FILE && f->report.gradients == 0);
            if (i == 4 && bad[j] != bad[j]) TC_ASSERT(f->report.status == PU_E_FILE);
        }
    remove(f->o.checkpoint);
    PASS();
}

TEST forged_numbers_are_not_believed(void)
{
    fit f;
    TC_ASSERT(make_fit(&f, 3)); /* mini-batches: no best point */
    CHECK_CALL(forged(&f));
    TC_ASSERT(make_fit(&f, 3));
    f.o.batch = 0, f.o.optimizer = PU_SGD, f.o.fixed_probes = f.o.warm_start = 1;
    CHECK_CALL(forged(&f));
    TC_ASSERT(make_fit(&f, 3));
    f.o.batch = 0, f.o.optimizer = PU_LBFGS, f.o.history = 2;
    f.o.gradient.samples = f.o.gradient.solve.iterations = 0, f.o.gradient.kind = PU_EXACT;
    CHECK_CALL(forged(&f));
    PASS();
}

/* The numbers of the best start so far: those of the first of two, which become those of the fit. */
TEST forged_numbers_of_a_start_are_not_believed(void)
{
    const double bad[] = {-2, 0.5, 1e9, 1e18, (double)INFINITY, (double)NAN};
    unsigned char bytes[20000], forged_[sizeof bytes];
    size_t size, all, top;
    uint64_t h;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    f.o.batch = 0, f.o.optimizer = PU_LBFGS, f.o.history = 2, f.o.starts = 2;
    f.o.gradient.samples = f.o.gradient.solve.iterations = 0, f.o.gradient.kind = PU_EXACT;
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.starts == 2);
    size = read_file(f.o.checkpoint, bytes, sizeof bytes);
    all = text_end(bytes, size), top = size - 8 - 2 * 8 - 8 * PU__FIT_OWN; /* before the ends and the checksum */
    f.o.resume = 1;
    for (int i = 0; i < PU__FIT_OWN; i++)
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            memcpy(forged_, bytes, size);
            memcpy(forged_ + top + 8 * (size_t)i, &bad[j], 8);
            h = pu__fnv(PU__FNV, forged_ + all, size - all - 8);
            memcpy(forged_ + size - 8, &h, 8);
            tc_set_case("number %d is %g", i, bad[j]);
            TC_ASSERT(write_file(f.o.checkpoint, forged_, size));
            (void)run(&f); /* a value: no crash, whatever comes of it */
            if (is_count[i] == '1' && !(bad[j] == 1e9 && is_unlimited[i] == '1'))
                TC_ASSERT(f.report.status == PU_E_FILE && is_told(&f, "damaged"));
        }
    remove(f.o.checkpoint);
    PASS();
}

/* Puts another text in the place of one in the text of a checkpoint, and its checksum anew where that is wanted. */
static size_t forge_text(unsigned char *bytes, size_t size, const char *from, const char *to, int with_sum)
{
    size_t end = text_end(bytes, size), at = 0, length = strlen(from);
    char sum[40];
    while (at < end && memcmp(bytes + at, from, length)) at++;
    if (at == end) return 0;
    memmove(bytes + at + strlen(to), bytes + at + length, size - at - length);
    memcpy(bytes + at, to, strlen(to));
    size += strlen(to) - length, end += strlen(to) - length;
    uint64_t h = pu__fnv(PU__FNV, bytes + 9, end - 28 - 9); /* behind the mark, to the line of the sum */
    snprintf(sum, sizeof sum, "checksum: %08lx%08lx", (unsigned long)(h >> 32), (unsigned long)(h & 0xffffffffu));
    if (with_sum) memcpy(bytes + end - 28, sum, 26);
    return size;
}

/* What a person sees of it. */
TEST it_describes_itself(void)
{
    static const char *const lines[] = {"pu fit 5\n# ", "\n# Steps done: 3 of 3. Objective ", "\npu.h: " PU_VERSION "\n",
                                        "\nmodel: factor analysis\n", "\nparameters: 16\n", "\nlatent variables: 2\n",
                                        "\nnumber of data: 12\n", "\nfit.optimizer: Adam\n", "\nfit.rate: 0.1\n",
                                        "\nfit.schedule: constant\n", "\nfit.batch: 5\n", "\nfit.gradient.solve.solver: CG\n",
                                        PU_TEST_PICK("\nnumbers: double, ", "\nnumbers: float, "), "\nchecksum: "};
    unsigned char bytes[20000];
    size_t end;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    TC_STATUS(run(&f), PU_OK);
    end = text_end(bytes, read_file(state, bytes, sizeof bytes));
    TC_ASSERT(end < 2500);
    bytes[end] = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        tc_set_case("%s", lines[i]);
        TC_ASSERT(strstr((char *)bytes, lines[i]));
    }
    PASS();
}

/* Text that was changed, with a sum that is not right, or is. */
TEST a_changed_text_is_refused(void)
{
    static const char *const change_[][3] = {{"fit.rate: 0.1", "fit.rate: 0.2", "fit.rate is 0.1 here, 0.2 in the checkpoint"},
                                             {"fit.rate: 0.1", "fit.rate: ", "fit.rate is 0.1 here,  in"},
                                             {"pu.h: ", "pu.h: 9", "pu.h is " PU_VERSION " here, 9" PU_VERSION " in"},
                                             {"model: ", "mode: ", "damaged"},
                                             {"fit.batch: 5\n", "", "damaged"},
                                             {"fit.batch: 5\n", "fit.batch: 5\nfit.batch: 5\n", "damaged"},
                                             {"-endian", "-indian", "numbers is "}};
    unsigned char bytes[20000], forged_[20500];
    size_t size;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    TC_STATUS(run(&f), PU_OK);
    size = read_file(state, bytes, sizeof bytes);
    f.o.resume = 1;
    for (int i = 0; i < 7; i++)
        for (int with_sum = 0; with_sum < 2; with_sum++) {
            tc_set_case("%s, sum %d", change_[i][1], with_sum);
            memcpy(forged_, bytes, size);
            size_t forged_size = forge_text(forged_, size, change_[i][0], change_[i][1], with_sum);
            TC_ASSERT(forged_size && write_file(state, forged_, forged_size));
            TC_ASSERT(is_refused(&f, with_sum ? change_[i][2] : "damaged"));
        }
    tc_set_case("a remark is free");
    memcpy(forged_, bytes, size);
    size = forge_text(forged_, size, "# Steps done: 3", "# Steps don: 4", 1);
    TC_ASSERT(size && write_file(state, forged_, size));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 3);
    PASS();
}

/* A file as another machine would write it: its text says so. */
TEST the_other_byte_order_is_refused(void)
{
    const char *mine = strstr(pu__numbers_here(), "little") ? "little-endian" : "big-endian";
    const char *other = mine[0] == 'l' ? "big-endian" : "little-endian";
    unsigned char bytes[20000], swapped[20100];
    size_t size, at;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    TC_STATUS(run(&f), PU_OK);
    size = read_file(f.o.checkpoint, bytes, sizeof bytes);
    TC_ASSERT(size > 8 && size < sizeof bytes);
    memcpy(swapped, bytes, size);
    at = text_end(bytes, size);
    for (size_t i = at; i + 8 <= size; i++) swapped[i] = bytes[at + (i - at) / 8 * 8 + 7 - (i - at) % 8];
    TC_ASSERT(write_file(f.o.checkpoint, swapped, size)); /* the numbers alone */
    f.o.resume = 1;
    TC_ASSERT(is_refused(&f, "damaged"));
    TC_ASSERT(write_file(f.o.checkpoint, swapped, forge_text(swapped, size, mine, other, 1)));
    TC_ASSERT(is_refused(&f, "-endian in the checkpoint"));
    TC_ASSERT(write_file(f.o.checkpoint, bytes, size));
    TC_STATUS(run(&f), PU_OK);
    TC_ASSERT(f.report.resumed == 3);
    PASS();
}

/* The last point of a fit is validated, also where its turn has not come; going on for more steps is as if that had not been done. */
static int validations;

static double validate_counted(pu_model *model, const pu_real *theta, void *user)
{
    (void)model, (void)user;
    validations++;
    return -(double)(theta[0] * theta[0]); /* any point may be the best */
}

TEST more_steps_with_validation(void)
{
    fit f, whole;
    for (pu_int first = 1; first < 10; first++) {
        tc_set_case("%d steps, then 11", (int)first);
        TC_ASSERT(make_fit(&whole, 11));
        whole.o.checkpoint = NULL, whole.o.checkpoint_every = 0, whole.o.validate = validate_counted, whole.o.validate_every = 4;
        TC_STATUS(run(&whole), PU_OK);
        TC_ASSERT(make_fit(&f, first));
        f.o.validate = validate_counted, f.o.validate_every = 4, f.o.checkpoint_every = 3;
        validations = 0;
        TC_STATUS(run(&f), PU_OK);
        TC_ASSERT(f.report.validation == f.report.validation && validations == (first + 3) / 4);
        pu_fit_report before = f.report;
        f.o.resume = 1; /* once more at its end: the same */
        TC_STATUS(run(&f), PU_OK);
        TC_ASSERT(f.report.best == before.best && f.report.best_step == before.best_step && f.report.validation == before.validation);
        f.o.steps = 11;
        TC_STATUS(run(&f), PU_OK);
        TC_ASSERT(f.report.resumed == first && f.report.best == whole.report.best && f.report.best_step == whole.report.best_step);
        TC_ASSERT(memcmp(f.theta, whole.theta, sizeof f.theta) == 0 && f.report.validation == whole.report.validation);
    }
    PASS();
}

/* Random bytes behind a good beginning, and files of the format before this one. */
TEST random_bytes(void)
{
    unsigned char bytes[2000];
    uint32_t word = 1;
    fit f;
    TC_ASSERT(make_fit(&f, 3));
    f.o.resume = 1;
    for (int round = 0; round < 200; round++) {
        size_t size = 8 + (size_t)round * 9;
        for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)((word = word * 1664525u + 1013904223u) >> 24);
        memcpy(bytes, round % 10 ? PU__MAGIC : "pu fit 1", 8);
        if (size > 8) bytes[8] = '\n';
        TC_ASSERT(write_file(f.o.checkpoint, bytes, size));
        TC_ASSERT(is_refused(&f, round % 10 && size > 8 ? "damaged" : "not a checkpoint of this version"));
    }
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_SETUP_CB(enter, NULL);
    GREATEST_SET_TEARDOWN_CB(leave, NULL);
    RUN_TEST(what_differs_is_named);
    RUN_TEST(a_finished_run_may_go_on);
    RUN_TEST(chosen_numbers_are_kept);
    RUN_TEST(two_writers);
    RUN_TEST(the_files_of_others_stay);
    RUN_TEST(links_are_followed);
    RUN_TEST(what_is_no_checkpoint_is_not_replaced);
    RUN_TEST(what_cannot_be_read_is_not_replaced);
    RUN_TEST(rights_are_kept);
    RUN_TEST(what_is_write_protected_is_not_replaced);
    RUN_TEST(few_parameters_break_off_anywhere);
    RUN_TEST(what_cannot_be_written_shows_at_the_start);
    RUN_TEST(forged_numbers_are_not_believed);
    RUN_TEST(forged_numbers_of_a_start_are_not_believed);
    RUN_TEST(it_describes_itself);
    RUN_TEST(a_changed_text_is_refused);
    RUN_TEST(more_steps_with_validation);
    RUN_TEST(the_other_byte_order_is_refused);
    RUN_TEST(random_bytes);
    PU_TEST_MAIN_END();
}

/* test_team.c - one fit by several processes, here threads: the bits do not depend on how many there are, what is wrong with one is
   told to all, nobody waits for one that has gone, and a checkpoint may be taken up by another number of processes. */
#define _POSIX_C_SOURCE 200809L
#define PU__TEAM_BYTES ((size_t)150) /* longer messages go in pieces, as those above 2 GB do elsewhere */
#define PU__TEAM_SHORT 8 /* sums over a team: series have fewer parameters, factors more */
#define PU_IMPLEMENTATION
#include "pu_test.h"
#include "test_common.h"
#include "team_threads.h"
#include <limits.h>
#include <unistd.h>

enum { M = 6, D = 2, N = 61, T = 40, SERIES = 13, FACTORS = M * D + 2 * M, AR = 4, MOST = FACTORS };
typedef enum { BATCHES, CHOSEN, ALL, PRIOR, STARTS, VALIDATED, FIXED, PROBES, LIKE, LISTS, PROBLEMS } problem;
static const char *const problem_name[] = {"mini-batches, Adam", "K and I chosen", "all data, L-BFGS, exact", "priors", "starts",
                                           "validation", "fixed probes", "probes apart", "exact, probes apart", "lists, touched rows"};

static char file[80]; /* the checkpoint of a run */

/* What one of a team does: all of its own but for the numbers. */
typedef struct {
    problem p;
    pu_team team;
    team_seat *seat;
    pu_model model;
    pu_data data;
    pu_fit_options o;
    pu_workspace ws;
    pu_fit_report report;
    pu_prior prior;
    pu_status status;
    pu_real theta[MOST];
    int validations, ticks, stops; /* stops: its progress function ends the fit */
} member;

/* The data of all, the same in every run, with gaps. */
static pu_real factors_y[N * M], series_y[SERIES * T];
static pu_real factors_start[FACTORS], series_start[AR];
/* Lists of one or two entries each: steps of few data do not touch all rows. */
static pu_int list_start[N + 1], list_row[2 * N];
static pu_real list_y[2 * N];

static int is_series(problem p) { return p == ALL || p == PRIOR || p == STARTS || (p >= FIXED && p < LISTS); }

static void make_data(void)
{
    pu_model model;
    pu_data data;
    pu_real theta[AR] = {PU_R(0.6), PU_R(0.2), PU_R(0.1), PU_R(0.5)};
    tc_fill_normal(3, N * M, factors_y);
    for (int i = 0; i < N; i++) /* a factor that is there */
        for (int j = 0; j < M; j++) factors_y[i * M + j] += 2 * factors_y[i * M] * (pu_real)(j % 3);
    for (int i = 0; i < N * M; i += 7) factors_y[i] = (pu_real)NAN;
    for (int i = 0; i < N; i++) {
        list_start[i + 1] = list_start[i];
        for (int j = 0; j < M && list_start[i + 1] < list_start[i] + 1 + i % 2; j += 1 + i % 3)
            if (j >= (i * i) % 4) list_row[list_start[i + 1]] = j, list_y[list_start[i + 1]++] = (pu_real)(i % 5) - (pu_real)j / 3;
    }
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, tc_bytes(20000), 20000);
    pu_model_factors(&model, M, D, NULL);
    data = pu_data_nan(N, M, factors_y);
    pu_model_start(&model, &data, 1, factors_start, NULL);
    memset(&model, 0, sizeof model);
    pu_workspace_block(&model.memory, tc_bytes(100000), 100000);
    pu_model_noisy_ar(&model, T, 2, NULL);
    pu_model_simulate(&model, theta, SERIES, 5, NULL, NULL, series_y, NULL);
    for (int i = 0; i < SERIES * T; i += 9) series_y[i] = (pu_real)NAN;
    data = pu_data_nan(SERIES, T, series_y);
    pu_model_start(&model, &data, 1, series_start, NULL);
}

static double validate_first(pu_model *model, const pu_real *theta, void *user)
{
    member *m = (member *)user;
    (void)model;
    m->validations++;
    /* that of the first counts, whatever others find */
    return m->team.rank ? -1 : (double)(theta[0] * theta[0]);
}

static void member_make(member *m, problem p, int rank, int ranks, pu_int parts, team_seat *seat)
{
    pu_int first = 0, count = 0, total = is_series(p) ? SERIES : N;
    int by_probes = p == PROBES || p == LIKE;
    memset(m, 0, sizeof *m);
    m->p = p;
    m->seat = seat;
    m->team.rank = rank, m->team.ranks = ranks, m->team.parts = parts, m->team.total = by_probes ? 1 : total;
    m->team.split = by_probes ? PU_TEAM_PROBES : PU_TEAM_DATA;
    m->team.swap = team_threads_swap, m->team.user = seat;
    pu_team_share(&m->team, &first, &count);
    if (is_series(p)) pu_model_noisy_ar(&m->model, T, 2, NULL);
    else pu_model_factors(&m->model, M, D, NULL);
    m->data = is_series(p) ? pu_data_nan(count, T, series_y + first * T) : pu_data_nan(count, M, factors_y + first * M);
    if (p == LISTS) m->data = pu_data_lists(count, M, list_start + first, list_row, list_y);
    memcpy(m->theta, is_series(p) ? series_start : factors_start, (size_t)(is_series(p) ? AR : FACTORS) * sizeof(pu_real));
    m->o.team = &m->team;
    m->o.gradient.threads = 1;
    m->o.steps = 6;
    m->o.user = m;
    if (p == BATCHES || p == CHOSEN || p == VALIDATED || p == LISTS) {
        m->o.batch = p == LISTS ? 1 : 4, m->o.optimizer = PU_ADAM, m->o.rate = 0.05;
        m->o.gradient.engine = PU_ITERATIVE, m->o.gradient.samples = 3, m->o.gradient.solve.iterations = 4;
    }
    if (p == CHOSEN) m->o.gradient.samples = PU_CHOOSE, m->o.gradient.error = 0.3, m->o.gradient.most_samples = 64;
    if (p == VALIDATED) m->o.validate = validate_first, m->o.validate_every = 2;
    if (p == ALL || p == PRIOR || p == STARTS || p == LIKE) m->o.optimizer = PU_LBFGS, m->o.gradient.kind = PU_EXACT, m->o.steps = 30;
    if (p == STARTS) m->o.starts = 2, m->o.steps = 4;
    if (p == PRIOR) {
        m->prior.kind = PU_PRIOR_FLOOR, m->prior.first = AR - 1, m->prior.count = 1, m->prior.bound = 0.3;
        m->model.priors = &m->prior, m->model.prior_count = 1;
    }
    if (p == FIXED || p == PROBES) {
        m->o.fixed_probes = 1, m->o.optimizer = PU_LBFGS, m->o.gradient.engine = PU_ITERATIVE, m->o.gradient.kind = PU_MONTE_CARLO;
        m->o.gradient.samples = 16, m->o.gradient.solve.iterations = 20, m->o.gradient.solve.solver = PU_CG;
    }
}

static void *member_work(void *self)
{
    member *m = (member *)self;
    m->status = pu_fit(&m->model, &m->data, &m->o, &m->ws, m->theta, &m->report);
    /* one that returned does not answer any more */
    pthread_mutex_lock(&m->seat->office->lock);
    if (m->status) team_leave(m->seat->office, m->team.rank);
    pthread_mutex_unlock(&m->seat->office->lock);
    return NULL;
}

static team_office office;
static team_seat seats[TEAM_MOST];
static member team[TEAM_MOST];

static void prepare(problem p, int ranks, pu_int parts)
{
    team_office_open(&office);
    memset(seats, 0, sizeof seats);
    for (int r = 0; r < ranks; r++) member_make(team + r, p, r, ranks, parts, seats + r);
}

static int run_team(int ranks) { return team_run(&office, seats, ranks, member_work, (char *)team, sizeof *team); }

static void dismiss(int ranks)
{
    for (int r = 0; r < ranks; r++) {
        pu_workspace_free(&team[r].ws);
        pu_model_free(&team[r].model);
    }
}

static int same(const pu_real *x, const pu_real *y) { return memcmp(x, y, MOST * sizeof *x) == 0; }

/* ---- the same bits ---- */

TEST the_number_of_processes_leaves_no_trace(problem p)
{
    static const int counts[] = {1, 2, 3, 4, 5, 8, 11};
    pu_real want[MOST];
    double objective = 0, gradients = 0;
    for (pu_int parts = 0; parts <= 5; parts += 5)
        for (int c = 0; c < 7; c++) {
            int ranks = counts[c];
            tc_set_case("%s, parts %d, processes %d", problem_name[p], (int)parts, ranks);
            prepare(p, ranks, parts);
            TC_ASSERT(run_team(ranks));
            TC_ASSERT(office.longest <= PU__TEAM_BYTES);
            if (c == 0) {
                memcpy(want, team->theta, sizeof want);
                objective = team->report.objective, gradients = (double)team->report.gradients;
            }
            for (int r = 0; r < ranks; r++) {
                TC_STATUS(team[r].status, PU_OK);
                TC_ASSERT(same(team[r].theta, want));
                TC_ASSERT(team[r].report.objective == objective && (double)team[r].report.gradients == gradients);
                TC_ASSERT(team[r].report.stop == team->report.stop && team[r].report.step == team->report.step);
            }
            dismiss(ranks);
        }
    PASS();
}

/* Threads within a process leave none either. */
TEST threads_leave_no_trace(void)
{
    pu_real want[MOST];
    for (int threads = 1; threads <= 3; threads++) {
        prepare(BATCHES, 2, 0);
        for (int r = 0; r < 2; r++) team[r].o.gradient.threads = threads;
        TC_ASSERT(run_team(2));
        if (threads == 1) memcpy(want, team->theta, sizeof want);
        TC_ASSERT(same(team->theta, want) && same(team[1].theta, want));
        dismiss(2);
    }
    PASS();
}

/* A team finds what one process finds alone, but for rounding: exact gradients of all data. */
TEST a_team_finds_the_maximum(void)
{
    pu_real theta[MOST];
    pu_fit_report alone;
    double objective;
    prepare(ALL, 3, 4);
    for (int r = 0; r < 3; r++) team[r].o.steps = 200;
    TC_ASSERT(run_team(3));
    TC_STATUS(team->status, PU_OK);
    objective = team->report.objective;
    TC_ASSERT(team->report.stop == PU_FIT_CONVERGED && strstr(team->report.plan, "parts: 4 on processes: 3"));
    team->o.team = NULL;
    team->data = pu_data_nan(SERIES, T, series_y);
    memcpy(theta, series_start, sizeof series_start);
    TC_STATUS(pu_fit(&team->model, &team->data, &team->o, &team->ws, theta, &alone), PU_OK);
    /* both rest within 1e-5 squared standard errors of the minimum, N times the objective */
    PU_CHECK_CLOSE(objective, alone.objective, 1e-5 / SERIES + 16 * (double)PU__EPS * fabs(objective));
    dismiss(3);
    PASS();
}

/* Probes apart: as many as asked for, and of different numbers in every part. */
TEST probes_of_parts_are_apart(void)
{
    double se[2];
    for (int i = 0; i < 2; i++) {
        prepare(PROBES, 2, i ? 4 : 1);
        for (int r = 0; r < 2; r++) team[r].o.steps = 1;
        TC_ASSERT(run_team(2));
        TC_STATUS(team->status, PU_OK);
        TC_ASSERT(team->report.last.samples == (i ? 4 : 16));
        se[i] = team->report.objective_se;
        dismiss(2);
    }
    /* chosen for all of them, then shared out */
    prepare(PROBES, 2, 4);
    for (int r = 0; r < 2; r++) {
        team[r].o.steps = 1, team[r].o.gradient.samples = PU_CHOOSE, team[r].o.gradient.error = 0.2, team[r].o.gradient.most_samples = 400;
    }
    TC_ASSERT(run_team(2));
    TC_STATUS(team->status, PU_OK);
    TC_ASSERT(team->report.last.samples > 0 && team->report.last.samples <= 100);
    dismiss(2);
    /* were they the same numbers the error would be twice as large; it is itself an estimate, from 3 or 15 degrees of freedom each */
    TC_ASSERT(se[0] > 0 && se[1] > 0 && se[1] < 1.5 * se[0] && se[1] > se[0] / 2);
    PASS();
}

/* ---- what is wrong with one is told to all ---- */

/* All end with this status and this text, and name that process. */
static int all_say(int ranks, pu_status status, const char *what, int rank)
{
    int ok = 1;
    for (int r = 0; r < ranks; r++) {
        char text[400];
        ok &= team[r].status == status && team[r].report.status == status && team[r].report.where.rank == rank;
        ok &= strstr(pu_fit_explain(&team[r].report, text, sizeof text), what) != NULL;
        if (!ok) {
            printf("rank %d: %s\n", r, text);
            return 0;
        }
    }
    return ok;
}

TEST bad_data_of_one_are_told_to_all(void)
{
    pu_real bad[N * M];
    pu_int first, count;
    memcpy(bad, factors_y, sizeof bad);
    prepare(BATCHES, 3, 0);
    memcpy(bad, team[2].data.y, (size_t)(team[2].data.n * M) * sizeof *bad);
    bad[3 * M + 1] = (pu_real)INFINITY;
    team[2].data.y = bad;
    TC_ASSERT(run_team(3));
    TC_ASSERT(all_say(3, PU_E_NONFINITE, "data.y", 2));
    /* its number among all data, and its row */
    TC_ASSERT(pu_team_share(&team[2].team, &first, &count) == PU_OK && first > 0);
    for (int r = 0; r < 3; r++) TC_ASSERT(team[r].report.where.datum == first + 3 && team[r].report.where.index == 1);
    dismiss(3);
    PASS();
}

TEST little_memory_of_one_is_told_to_all(void)
{
    static double block[64];
    for (int rank = 0; rank < 3; rank++) {
        prepare(BATCHES, 3, 0);
        pu_workspace_block(&team[rank].ws, block, sizeof block);
        TC_ASSERT(run_team(3));
        TC_ASSERT(all_say(3, PU_E_BLOCK, "workspace", rank));
        dismiss(3);
    }
    PASS();
}

/* An allocator that has nothing left after so many calls. */
static void *alloc_while(size_t bytes, void *user)
{
    int *left = (int *)user;
    return --*left < 0 ? NULL : malloc(bytes);
}

static void free_any(void *block, size_t bytes, void *user)
{
    (void)bytes, (void)user;
    free(block);
}

/* Memory that gives out later, in the middle of a fit: at every allocation of it. */
TEST memory_that_gives_out_is_told_to_all(problem p)
{
    int most = 0;
    for (int rank = 0; rank < 3; rank++)
        for (int calls = 0, left = 1; left > 0 || calls < 2; calls++) {
            left = calls;
            tc_set_case("%s, process %d, after %d allocations", problem_name[p], rank, calls);
            prepare(p, 3, 0);
            team[rank].ws.allocator.alloc = alloc_while, team[rank].ws.allocator.free = free_any, team[rank].ws.allocator.user = &left;
            TC_ASSERT(run_team(3));
            if (left >= 0) { /* it was enough */
                for (int r = 0; r < 3; r++) TC_STATUS(team[r].status, PU_OK);
                left = 0, most = calls;
            } else {
                TC_ASSERT(all_say(3, PU_E_MEMORY, "workspace", rank));
                left = 1;
            }
            dismiss(3);
        }
    TC_ASSERT(most > 1);
    PASS();
}

/* Options that must be the same: one process has another. */
static void another_rate(member *m) { m->o.rate = 0.06; }
static void another_seed(member *m) { m->o.gradient.seed = 9; }
static void another_number_of_steps(member *m) { m->o.steps = 7; }
static void another_number_of_parts(member *m) { m->team.parts = 7; }
static void no_validation(member *m) { m->o.validate = NULL, m->o.validate_every = 0; }
static void a_checkpoint(member *m) { m->o.checkpoint = file; }
static void a_prior(member *m)
{
    m->prior.count = 1, m->prior.precision = 1;
    m->model.priors = &m->prior, m->model.prior_count = 1;
}

TEST what_differs_is_told_to_all(void)
{
    static const struct {
        void (*change)(member *m);
        const char *what;
    } odd[] = {{another_rate, "fit.rate"},        {another_seed, "fit.gradient.seed"}, {another_number_of_steps, "fit.steps"},
               {no_validation, "fit.validate"},   {a_checkpoint, "fit.checkpoint"},    {a_prior, "model.priors"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int rank = 0; rank < 4; rank++) {
            tc_set_case("%s of process %d", odd[i].what, rank);
            prepare(VALIDATED, 4, 0);
            odd[i].change(team + rank);
            TC_ASSERT(run_team(4));
            /* where the first one is the odd one, all others are not as it is */
            TC_ASSERT(all_say(4, PU_E_TEAM, odd[i].what, rank ? rank : 1));
            dismiss(4);
        }
    for (int rank = 0; rank < 4; rank++) {
        prepare(ALL, 4, 0);
        team[rank].theta[1] += PU_R(1e-3);
        TC_ASSERT(run_team(4));
        TC_ASSERT(all_say(4, PU_E_TEAM, "theta or model", rank ? rank : 1));
        dismiss(4);
    }
    prepare(PROBES, 3, 0);
    pu_real other[SERIES * T];
    memcpy(other, series_y, sizeof other);
    other[T / 2] += PU_R(1e-3);
    team[2].data.y = other;
    TC_ASSERT(run_team(3));
    TC_ASSERT(all_say(3, PU_E_TEAM, "data (not as", 2));
    dismiss(3);
    prepare(BATCHES, 4, 0);
    team[1].data.n--;
    TC_ASSERT(run_team(4));
    TC_ASSERT(all_say(4, PU_E_SIZE, "pu_team_share", 1));
    dismiss(4);
    prepare(BATCHES, 4, 0);
    another_number_of_parts(team + 2);
    TC_ASSERT(run_team(4));
    TC_ASSERT(all_say(4, PU_E_SIZE, "pu_team_share", 2));
    dismiss(4);
    prepare(BATCHES, 4, 0);
    team[2].o.beta1 = 2;
    TC_ASSERT(run_team(4));
    TC_ASSERT(all_say(4, PU_E_ARGUMENT, "fit.beta1", 2));
    dismiss(4);
    PASS();
}

/* Lists on some processes and complete arrays on others: not the same fit, and nobody waits. */
TEST another_kind_of_data_is_told_to_all(void)
{
    prepare(LISTS, 3, 0);
    TC_ASSERT(run_team(3));
    TC_ASSERT(strstr(team->report.plan, "of touched rows") != NULL);
    dismiss(3);
    prepare(LISTS, 3, 0);
    team[2].data = pu_data_nan(team[2].data.n, M, factors_y);
    TC_ASSERT(run_team(3));
    TC_ASSERT(all_say(3, PU_E_TEAM, "options (not as on the first process: fit.dense", 2));
    dismiss(3);
    PASS();
}

/* One process looks at all rows after every step, the others do not: they stay together, and end as without it. */
static int look(const pu_fit_report *now, void *user)
{
    member *m = (member *)user;
    m->validations += now->theta == NULL; /* rows were behind */
    return pu_fit_theta(now) == NULL;
}

TEST a_look_of_one_leaves_no_trace(void)
{
    pu_real want[MOST];
    for (int rank = -1; rank < 3; rank++) {
        prepare(LISTS, 3, 3);
        for (int r = 0; r < 3; r++) team[r].o.steps = 20;
        if (rank >= 0) team[rank].o.progress = look;
        TC_ASSERT(run_team(3));
        if (rank < 0) memcpy(want, team->theta, sizeof want);
        for (int r = 0; r < 3; r++) {
            TC_STATUS(team[r].status, PU_OK);
            TC_ASSERT(same(team[r].theta, want));
        }
        TC_ASSERT(rank < 0 || team[rank].validations > 0);
        dismiss(3);
    }
    PASS();
}

/* A process whose theta is not that of the others any more, as on a machine with another libm: seen at the next gradient. */
static double drift(pu_model *model, const pu_real *theta, void *user)
{
    member *m = (member *)user;
    pu_real *own = (pu_real *)(uintptr_t)theta;
    (void)model;
    if (m->team.rank == 2 && ++m->validations == 2) own[5] *= 1 + 4 * PU__EPS;
    return 1;
}

TEST drift_is_told_to_all(void)
{
    prepare(VALIDATED, 4, 0);
    for (int r = 0; r < 4; r++) team[r].o.validate = drift, team[r].o.validate_every = 1;
    TC_ASSERT(run_team(4));
    TC_ASSERT(all_say(4, PU_E_TEAM, "theta (not as on the first process any more", 2));
    TC_ASSERT(team->report.step == 2);
    dismiss(4);
    PASS();
}

/* ---- what ends a fit ---- */

static int ends_after(const pu_fit_report *r, void *user)
{
    const member *m = (const member *)user;
    return m->stops && r->step >= 2;
}

static double tick(void *user)
{
    member *m = (member *)user;
    m->ticks++;
    /* clocks of others run away */
    return m->team.rank ? 100.0 * m->ticks : m->ticks;
}

/* Any process may end a fit: all end with the same step, the first one's wish at once, others' with the next gradient. */
TEST any_process_may_end_a_fit(problem p)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int rank = 0; rank < ranks; rank++) {
            tc_set_case("%s, process %d of %d", problem_name[p], rank, ranks);
            prepare(p, ranks, 0);
            for (int r = 0; r < ranks; r++) team[r].o.progress = ends_after, team[r].stops = r == rank;
            TC_ASSERT(run_team(ranks));
            for (int r = 0; r < ranks; r++) {
                TC_STATUS(team[r].status, PU_OK);
                TC_ASSERT(team[r].report.stop == PU_FIT_CALLBACK && team[r].report.step == (rank ? 3 : 2));
                TC_ASSERT(same(team[r].theta, team->theta));
            }
            dismiss(ranks);
        }
    PASS();
}

/* The first one's clock counts. */
TEST time_is_the_first_ones(void)
{
    pu_int steps = 0;
    for (int ranks = 1; ranks <= 4; ranks++) {
        prepare(BATCHES, ranks, 0);
        for (int r = 0; r < ranks; r++) team[r].o.clock = tick, team[r].o.seconds = 4, team[r].o.steps = 100;
        TC_ASSERT(run_team(ranks));
        if (ranks == 1) steps = team->report.step;
        for (int r = 0; r < ranks; r++) {
            TC_STATUS(team[r].status, PU_OK);
            TC_ASSERT(team[r].report.stop == PU_FIT_TIME && team[r].report.step == steps && steps > 1 && steps < 100);
            TC_ASSERT(same(team[r].theta, team->theta));
        }
        dismiss(ranks);
    }
    PASS();
}

/* Everything that a process may be missing from, one swap after the other: all end with PU_E_TEAM. */
TEST nobody_waits_for_one_that_has_gone(problem p)
{
    const int ranks = 3;
    pu_real want[MOST];
    for (int rank = 0; rank < ranks; rank++) {
        long swaps = 1;
        for (long leave = 1; leave <= swaps; leave += p == VALIDATED ? 1 : 1 + swaps / 20) {
            tc_set_case("%s, process %d, before swap %ld", problem_name[p], rank, leave);
            prepare(p, ranks, 0);
            if (p == STARTS || p == ALL)
                for (int r = 0; r < ranks; r++) team[r].o.steps = 4;
            if (leave == 1) { /* how many there are */
                seats[rank].leave_at = LONG_MAX;
                TC_ASSERT(run_team(ranks));
                swaps = seats[rank].swaps;
                memcpy(want, team->theta, sizeof want);
                TC_ASSERT(team[rank].status == PU_OK && swaps > 40);
                dismiss(ranks);
                prepare(p, ranks, 0);
                if (p == STARTS || p == ALL)
                    for (int r = 0; r < ranks; r++) team[r].o.steps = 4;
            }
            seats[rank].leave_at = leave;
            TC_ASSERT(run_team(ranks));
            TC_STATUS(team[rank].status, PU_E_TEAM);
            for (int r = 0; r < ranks; r++) {
                /* what it had to say last may have reached one and not the other */
                if (team[r].status == PU_OK && leave + ranks > swaps && same(team[r].theta, want)) continue;
                TC_STATUS(team[r].status, PU_E_TEAM);
                TC_ASSERT(team[r].report.status == PU_E_TEAM && strstr(team[r].report.where.what, "team.swap"));
            }
            dismiss(ranks);
        }
    }
    PASS();
}

/* What swap returns is what the fit returns, unless it is nothing that a team can say. */
static pu_status say;
static pu_status no_swap(void *user, int peer, const void *out, void *in, size_t bytes)
{
    (void)user, (void)peer, (void)out, (void)in, (void)bytes;
    return say;
}

TEST swap_has_the_word(void)
{
    static const struct {
        pu_status says, comes;
    } word[] = {{PU_E_TEAM, PU_E_TEAM}, {PU_E_DEVICE, PU_E_DEVICE}, {PU_NONFINITE, PU_E_TEAM}, {PU_INEXACT, PU_E_TEAM},
                {PU_E_NOT_DEFINITE, PU_E_TEAM}};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        prepare(BATCHES, 2, 0);
        say = word[i].says;
        team->team.swap = no_swap;
        TC_STATUS(pu_fit(&team->model, &team->data, &team->o, &team->ws, team->theta, &team->report), word[i].comes);
        TC_ASSERT(same(team->theta, factors_start));
        dismiss(2);
    }
    PASS();
}

/* The engine and the time that a fit is chosen by are those of parts, however these are shared out. */
TEST plans_are_of_parts(void)
{
    double iterative = 0, seconds = 0;
    for (int ranks = 1; ranks <= 9; ranks++) {
        pu__voice all = PU__ZERO;
        prepare(BATCHES, ranks, 0);
        for (int r = 0; r < ranks; r++) {
            pu_fit_options o;
            pu__fit fit = pu__fit_make(&team[r].model, &team[r].data, &team[r].o, &o);
            pu__voice own = PU__ZERO;
            o.gradient.engine = PU_ENGINE_AUTO;
            TC_STATUS(pu_model_set(&team[r].model, team[r].theta, NULL), PU_OK);
            pu__team_plan(&fit, &own);
            all.iterative = pu__max(all.iterative > 0, own.iterative > 0);
            all.seconds = pu__max(all.seconds, own.seconds);
        }
        if (ranks == 1) iterative = all.iterative, seconds = all.seconds;
        TC_ASSERT(all.iterative == iterative && all.seconds == seconds && seconds > 0);
        dismiss(ranks);
    }
    PASS();
}

/* ---- checkpoints ---- */

static long read_all(const char *name, unsigned char *bytes, size_t most)
{
    FILE *f = fopen(name, "rb");
    long count = f ? (long)fread(bytes, 1, most, f) : -1;
    if (f) fclose(f);
    return count;
}

static int run_with_file(problem p, int ranks, pu_int steps, int resume)
{
    prepare(p, ranks, 0);
    for (int r = 0; r < ranks; r++) {
        team[r].o.checkpoint = file, team[r].o.checkpoint_every = 1, team[r].o.resume = resume;
        if (steps) team[r].o.steps = steps;
    }
    return run_team(ranks);
}

TEST another_number_of_processes_goes_on(problem p)
{
    static unsigned char first[1 << 16], other[1 << 16];
    pu_real want[MOST];
    pu_int steps;
    long size = 0;
    tc_set_case("%s", problem_name[p]);
    for (int ranks = 1; ranks <= 4; ranks++) {
        TC_ASSERT(run_with_file(p, ranks, 0, 0));
        TC_STATUS(team->status, PU_OK);
        if (ranks == 1) {
            memcpy(want, team->theta, sizeof want);
            size = read_all(file, first, sizeof first);
            TC_ASSERT(size > 0 && size < (long)sizeof first);
        }
        TC_ASSERT(same(team->theta, want));
        TC_ASSERT(read_all(file, other, sizeof other) == size && memcmp(first, other, (size_t)size) == 0);
        remove(file);
        dismiss(ranks);
    }
    for (steps = 1; steps < 6; steps += 2)
        for (int ranks = 1; ranks <= 5; ranks += 2) {
            TC_ASSERT(run_with_file(p, 2, steps, 0));
            dismiss(2);
            TC_ASSERT(run_with_file(p, ranks, 0, 1));
            for (int r = 0; r < ranks; r++) {
                TC_STATUS(team[r].status, PU_OK);
                TC_ASSERT(team[r].report.resumed == (int)steps && same(team[r].theta, want));
            }
            remove(file);
            dismiss(ranks);
        }
    PASS();
}

/* A team of another number of parts is another fit; and a file that cannot be written is told to all. */
TEST files_that_do_not_fit_are_told_to_all(void)
{
    TC_ASSERT(run_with_file(BATCHES, 2, 3, 0));
    dismiss(2);
    prepare(BATCHES, 3, 4);
    for (int r = 0; r < 3; r++) team[r].o.checkpoint = file, team[r].o.resume = 1;
    TC_ASSERT(run_team(3));
    TC_ASSERT(all_say(3, PU_E_FILE, "fit.team.parts", 0));
    dismiss(3);
    remove(file);
    prepare(BATCHES, 3, 0);
    for (int r = 0; r < 3; r++) team[r].o.checkpoint = "/nowhere/at/all";
    TC_ASSERT(run_team(3));
    TC_ASSERT(all_say(3, PU_E_FILE, "cannot be opened", 0));
    dismiss(3);
    PASS();
}

/* ---- a team by itself ---- */

typedef struct {
    pu_team team;
    double all[TEAM_MOST], told[700];
    pu_status status;
} talker;

static void *talk(void *self)
{
    talker *t = (talker *)self;
    t->all[t->team.rank] = 1 + t->team.rank;
    t->status = pu_team_gather(&t->team, sizeof *t->all, t->all);
    if (!t->status) t->status = pu_team_broadcast(&t->team, sizeof t->told, t->told);
    return NULL;
}

TEST gather_and_broadcast(void)
{
    static talker talkers[TEAM_MOST];
    for (int ranks = 1; ranks <= TEAM_MOST; ranks++) {
        tc_set_case("%d processes", ranks);
        team_office_open(&office);
        memset(seats, 0, sizeof seats), memset(talkers, 0, sizeof talkers);
        for (int r = 0; r < ranks; r++) {
            talkers[r].team.rank = r, talkers[r].team.ranks = ranks, talkers[r].team.total = 1;
            talkers[r].team.swap = team_threads_swap, talkers[r].team.user = seats + r;
            for (int i = 0; i < 700; i++) talkers[r].told[i] = 1000 * r + i;
        }
        TC_ASSERT(team_run(&office, seats, ranks, talk, (char *)talkers, sizeof *talkers));
        for (int r = 0; r < ranks; r++) {
            TC_STATUS(talkers[r].status, PU_OK);
            for (int i = 0; i < ranks; i++) TC_ASSERT(talkers[r].all[i] == 1 + i);
            for (int i = 0; i < 700; i++) TC_ASSERT(talkers[r].told[i] == i);
        }
    }
    PASS();
}

/* Shares cover all data, in order, whatever the numbers. */
TEST shares_cover_all_data(void)
{
    for (pu_int total = 1; total < 30; total += 4)
        for (int ranks = 1; ranks < 12; ranks++) {
            pu_int next = 0, first, count;
            for (int r = 0; r < ranks; r++) {
                pu_team t = {r, ranks, 7, PU_TEAM_DATA, total, NULL, NULL};
                TC_STATUS(pu_team_share(&t, &first, &count), PU_OK);
                TC_ASSERT(first == next && count >= 0);
                next += count;
            }
            TC_ASSERT(next == total);
        }
    PASS();
}

TEST teams_that_make_no_sense_are_refused(void)
{
    static const struct {
        int rank, ranks, parts, split, total;
        const char *what;
        pu_status status;
    } bad[] = {{-1, 2, 0, 0, N, "team.rank", PU_E_ARGUMENT}, {2, 2, 0, 0, N, "team.rank", PU_E_ARGUMENT},
               {0, 0, 0, 0, N, "team.rank", PU_E_ARGUMENT},  {0, 1, -1, 0, N, "team.parts", PU_E_ARGUMENT},
               {0, 1, 70000, 0, N, "team.parts", PU_E_ARGUMENT}, {0, 1, 0, 2, N, "team.split", PU_E_ARGUMENT},
               {0, 1, 0, 0, 0, "team.total", PU_E_ARGUMENT}, {0, 2, 0, 0, N, "team.swap", PU_E_NULL},
               {0, 1, 0, 0, N + 1, "pu_team_share", PU_E_SIZE}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pu_team t = {bad[i].rank, bad[i].ranks, bad[i].parts, (pu_team_split)bad[i].split, bad[i].total, NULL, NULL};
        tc_set_case("case %d", (int)i);
        prepare(BATCHES, 1, 0);
        team->team = t;
        TC_STATUS(pu_fit(&team->model, &team->data, &team->o, NULL, team->theta, &team->report), bad[i].status);
        TC_ASSERT(strstr(team->report.where.what, bad[i].what));
        TC_ASSERT(same(team->theta, factors_start));
        dismiss(1);
    }
    prepare(BATCHES, 1, 0);
    team->o.accumulate = 2;
    TC_STATUS(pu_fit(&team->model, &team->data, &team->o, NULL, team->theta, NULL), PU_E_ARGUMENT);
    dismiss(1);
    /* one without data asks for memory, too */
    prepare(BATCHES, 3, 2);
    size_t bytes = 0;
    TC_ASSERT(team[2].data.n == 0);
    TC_STATUS(pu_fit_bytes(&team[2].model, &team[2].data, &team[2].o, &bytes, NULL), PU_OK);
    TC_ASSERT(bytes > 0);
    dismiss(3);
    prepare(PROBES, 1, 0);
    team->o.optimizer = PU_ADAM, team->o.batch = 1;
    TC_STATUS(pu_fit(&team->model, &team->data, &team->o, NULL, team->theta, NULL), PU_E_ARGUMENT);
    dismiss(1);
    PASS();
}

static void enter(void *unused)
{
    (void)unused;
    make_data();
}

static void leave(void *unused)
{
    (void)unused;
    remove(file);
    tc_release(NULL);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    snprintf(file, sizeof file, "/tmp/pu_team.%ld", (long)getpid());
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_SETUP_CB(enter, NULL);
    GREATEST_SET_TEARDOWN_CB(leave, NULL);
    for (int p = 0; p < PROBLEMS; p++) RUN_TEST1(the_number_of_processes_leaves_no_trace, (problem)p);
    RUN_TEST(threads_leave_no_trace);
    RUN_TEST(a_team_finds_the_maximum);
    RUN_TEST(probes_of_parts_are_apart);
    RUN_TEST(bad_data_of_one_are_told_to_all);
    RUN_TEST(little_memory_of_one_is_told_to_all);
    RUN_TEST1(memory_that_gives_out_is_told_to_all, BATCHES);
    RUN_TEST1(memory_that_gives_out_is_told_to_all, ALL);
    RUN_TEST(what_differs_is_told_to_all);
    RUN_TEST(another_kind_of_data_is_told_to_all);
    RUN_TEST(a_look_of_one_leaves_no_trace);
    RUN_TEST(drift_is_told_to_all);
    RUN_TEST1(any_process_may_end_a_fit, BATCHES);
    RUN_TEST1(any_process_may_end_a_fit, ALL);
    RUN_TEST(time_is_the_first_ones);
    for (int p = 0; p < PROBLEMS; p++) RUN_TEST1(nobody_waits_for_one_that_has_gone, (problem)p);
    RUN_TEST(swap_has_the_word);
    RUN_TEST(plans_are_of_parts);
    RUN_TEST1(another_number_of_processes_goes_on, BATCHES);
    RUN_TEST1(another_number_of_processes_goes_on, ALL);
    RUN_TEST1(another_number_of_processes_goes_on, CHOSEN);
    RUN_TEST1(another_number_of_processes_goes_on, LISTS);
    RUN_TEST(files_that_do_not_fit_are_told_to_all);
    RUN_TEST(gather_and_broadcast);
    RUN_TEST(shares_cover_all_data);
    RUN_TEST(teams_that_make_no_sense_are_refused);
    PU_TEST_MAIN_END();
}

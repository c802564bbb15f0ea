/* test_memory.c - where memory comes from, how much of it, and what happens when there is none. */
#include "pu_test.h"
#include "test_common.h"

/* ---- an allocator that counts, fails on demand, and checks what is given back ---------------- */

enum { LIVE_MAX = 16, GUARD = 64 };

typedef struct {
    void *raw, *block;
    size_t bytes;
} allocation;

typedef struct {
    allocation live[LIVE_MAX];
    int live_count, calls, frees;
    int fail_at;  /* the call that returns NULL, counted from 0; -1: none */
    int mistakes; /* frees of a stranger or with another size, writes beyond the block */
} counter;

static counter new_counter(void)
{
    counter c;
    memset(&c, 0, sizeof c);
    c.fail_at = -1;
    return c;
}

/* The address is a multiple of 16 and of no more: that is all an allocator promises. */
static void *counting_alloc(size_t bytes, void *user)
{
    counter *c = (counter *)user;
    allocation *a = &c->live[c->live_count];
    unsigned char *at;
    if (c->calls++ == c->fail_at || c->live_count == LIVE_MAX) return NULL;
    a->raw = malloc(bytes + 2 * GUARD + 32);
    if (a->raw == NULL) return NULL;
    at = (unsigned char *)a->raw + GUARD;
    while ((uintptr_t)at % 32 != 16) at++;
    memset(a->raw, TC_PATTERN, bytes + 2 * GUARD + 32);
    a->block = at;
    a->bytes = bytes;
    c->live_count++;
    return at;
}

static void counting_free(void *block, size_t bytes, void *user)
{
    counter *c = (counter *)user;
    int i = 0;
    c->frees++;
    while (i < c->live_count && c->live[i].block != block) i++;
    if (i == c->live_count) {
        c->mistakes++;
        return;
    }
    c->mistakes += c->live[i].bytes != bytes;
    c->mistakes += !tc_is_pattern((unsigned char *)block - 16, 16);
    c->mistakes += !tc_is_pattern((unsigned char *)block + bytes, GUARD);
    free(c->live[i].raw);
    c->live[i] = c->live[--c->live_count];
}

static pu_workspace counted_workspace(counter *c)
{
    pu_workspace ws;
    memset(&ws, 0, sizeof ws);
    ws.allocator.alloc = counting_alloc;
    ws.allocator.free = counting_free;
    ws.allocator.user = c;
    return ws;
}

/* ---- settings: one call of pu_gradient each -------------------------------------------------- */

enum { D = 13, M = 9, N = 5, K = 3, STEPS = 6 };

typedef struct {
    const char *name;
    pu_kind kind;
    pu_engine engine;
    pu_solver solver;
    pu_adjoint adjoint;
    pu_int checkpoint;
    tc_prior prior;
} setting;

static const setting settings[] = {
    {"network cg", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, 0, TC_DIAGONAL},
    {"network pcg", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL, 0, TC_SPD},
    {"network sd", PU_NETWORK, PU_ITERATIVE, PU_SD, PU_ADJOINT_FULL, 0, TC_IDENTITY},
    {"network gd", PU_NETWORK, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL, 0, TC_DIAGONAL},
    {"network cg shortcut", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_SHORTCUT, 0, TC_SPD},
    {"network pcg reorthogonal", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_REORTHOGONAL, 0,
     TC_DIAGONAL},
    {"network cg auto", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_AUTO, 0, TC_SPD},
    {"network cg checkpoint", PU_NETWORK, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, PU_CHOOSE, TC_SPD},
    {"network pcg checkpoint 4", PU_NETWORK, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL, 4, TC_DIAGONAL},
    {"network sd checkpoint", PU_NETWORK, PU_ITERATIVE, PU_SD, PU_ADJOINT_FULL, PU_CHOOSE, TC_SPD},
    {"network gd checkpoint 1", PU_NETWORK, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL, 1, TC_DIAGONAL},
    {"output cg", PU_OUTPUT, PU_ITERATIVE, PU_CG, PU_ADJOINT_FULL, 0, TC_SPD},
    {"output gd", PU_OUTPUT, PU_ITERATIVE, PU_GD, PU_ADJOINT_FULL, 0, TC_DIAGONAL},
    {"monte carlo pcg", PU_MONTE_CARLO, PU_ITERATIVE, PU_PCG, PU_ADJOINT_FULL, 0, TC_SPD},
    {"monte carlo dense", PU_MONTE_CARLO, PU_DENSE, PU_CG, PU_ADJOINT_FULL, 0, TC_DIAGONAL},
    {"exact", PU_EXACT, PU_DENSE, PU_CG, PU_ADJOINT_FULL, 0, TC_SPD},
};

#define SETTINGS ((int)(sizeof settings / sizeof settings[0]))

typedef struct {
    tc_model model;
    pu_options options;
    tc_outputs o;
    pu_report report;
} job;

static void make_job(job *t, const setting *s)
{
    tc_set_case("%s", s->name);
    memset(t, 0, sizeof *t);
    tc_random_model(&t->model, s->prior, D, M, N, 77);
    t->options.samples = s->kind == PU_EXACT ? PU_ZERO : K;
    t->options.kind = s->kind;
    t->options.engine = s->engine;
    t->options.solve.iterations = s->kind == PU_MONTE_CARLO ? 0 : STEPS;
    t->options.solve.solver = s->solver;
    t->options.solve.adjoint = s->adjoint;
    t->options.solve.tape_every = s->checkpoint;
    t->options.seed = 5;
    t->options.threads = 2;
    t->o = tc_make_outputs(&t->model.lgm, N, K, 10 * D + 100);
    /* only CG and PCG have the coefficients that estimate log det A */
    if (s->engine == PU_DENSE || s->solver == PU_SD || s->solver == PU_GD) t->o.out.logdet = NULL;
}

static pu_status run(job *t, pu_workspace *ws)
{
    tc_spoil_outputs(&t->o);
    return pu_gradient(&t->model.lgm, &t->model.data, &t->options, ws, &t->o.out, &t->report);
}

static pu_status bytes_of(job *t, size_t *bytes)
{
    return pu_gradient_bytes(&t->model.lgm, &t->model.data, &t->options, &t->o.out, bytes,
                             &t->report);
}

/* What the same job gives with no workspace at all: the reference for every other way. */
static unsigned char *reference(job *t, pu_status *status)
{
    unsigned char *copy = (unsigned char *)tc_bytes(t->o.size);
    *status = run(t, NULL);
    memcpy(copy, t->o.bytes, t->o.size);
    return copy;
}

#define SAME_AS(want) (memcmp(t.o.bytes, want, t.o.size) == 0)

/* ---- gradient: allocator --------------------------------------------------------------------- */

TEST no_workspace_works(const setting *s)
{
    job t;
    pu_status status;
    make_job(&t, s);
    reference(&t, &status);
    TC_STATUS(status, PU_OK);
    TC_ASSERT(!tc_outputs_untouched(&t.o));
    TC_ASSERT(tc_gaps_untouched(&t.o));
    PASS();
}

TEST second_call_allocates_nothing(const setting *s)
{
    job t;
    counter c = new_counter();
    pu_workspace ws = counted_workspace(&c);
    pu_status status;
    unsigned char *want;
    make_job(&t, s);
    want = reference(&t, &status);
    TC_STATUS(run(&t, &ws), PU_OK);
    TC_ASSERT(c.calls == 1); /* the header says one, not a few */
    TC_ASSERT(ws.allocations == 1);
    TC_ASSERT(SAME_AS(want));
    TC_STATUS(run(&t, &ws), PU_OK);
    TC_ASSERT(c.calls == 1 && c.frees == 0 && c.live_count == 1);
    TC_ASSERT(SAME_AS(want));
    pu_workspace_free(&ws);
    TC_ASSERT(c.live_count == 0 && c.frees == 1 && c.mistakes == 0);
    TC_ASSERT(ws.block == NULL && ws.bytes == 0);
    pu_workspace_free(&ws);
    TC_ASSERT(c.frees == 1 && c.mistakes == 0);
    TC_STATUS(run(&t, &ws), PU_OK); /* a freed workspace is an empty one */
    TC_ASSERT(c.calls == 2 && SAME_AS(want));
    pu_workspace_free(&ws);
    TC_ASSERT(c.live_count == 0 && c.mistakes == 0);
    PASS();
}

TEST every_failure_is_clean(const setting *s)
{
    job t;
    counter c = new_counter();
    pu_workspace ws = counted_workspace(&c);
    pu_status status;
    unsigned char *want;
    int calls, fail;
    make_job(&t, s);
    want = reference(&t, &status);
    TC_STATUS(run(&t, &ws), PU_OK);
    pu_workspace_free(&ws);
    calls = c.calls;
    for (fail = 0; fail < calls; fail++) {
        c = new_counter();
        c.fail_at = fail;
        ws = counted_workspace(&c);
        TC_STATUS(run(&t, &ws), PU_E_MEMORY);
        TC_STATUS(t.report.status, PU_E_MEMORY);
        TC_ASSERT(tc_outputs_untouched(&t.o));
        TC_ASSERT(c.live_count == c.calls - 1 - c.frees);
        TC_STATUS(run(&t, &ws), PU_OK); /* only that one call failed */
        TC_ASSERT(SAME_AS(want));
        pu_workspace_free(&ws);
        TC_ASSERT(c.live_count == 0 && c.mistakes == 0);
    }
    PASS();
}

/* A larger job makes the workspace grow; a failure to grow leaves it usable for the smaller one. */
TEST workspace_grows(void)
{
    job small, large;
    counter c = new_counter();
    pu_workspace ws = counted_workspace(&c);
    make_job(&small, &settings[0]);
    make_job(&large, &settings[0]);
    large.options.solve.iterations = 40;
    ASSERT_EQ(run(&small, &ws), PU_OK);
    c.fail_at = c.calls;
    ASSERT_EQ(run(&large, &ws), PU_E_MEMORY);
    ASSERT(tc_outputs_untouched(&large.o));
    ASSERT_EQ(run(&small, &ws), PU_OK);
    ASSERT_EQ(run(&large, &ws), PU_OK);
    ASSERT_EQ(c.live_count, 1);
    {
        int calls = c.calls;
        ASSERT_EQ(run(&small, &ws), PU_OK);
        ASSERT_EQ(run(&large, &ws), PU_OK);
        ASSERT_EQ(c.calls, calls);
    }
    pu_workspace_free(&ws);
    ASSERT(c.live_count == 0 && c.mistakes == 0);
    PASS();
}

/* ---- gradient: the caller's block ------------------------------------------------------------ */

/* A block of `bytes` at `offset` from a multiple of 64, with a pattern before and behind. */
typedef struct {
    unsigned char *raw, *at;
    size_t bytes, before, behind;
} fenced;

static fenced fence(size_t bytes, size_t offset)
{
    fenced f;
    size_t total = bytes + 4 * GUARD;
    f.raw = (unsigned char *)tc_bytes(total);
    memset(f.raw, TC_PATTERN, total);
    f.before = GUARD + (GUARD - (size_t)((uintptr_t)f.raw % GUARD)) % GUARD + offset;
    f.at = f.raw + f.before;
    f.bytes = bytes;
    f.behind = total - bytes - f.before;
    return f;
}

static int fence_intact(const fenced *f)
{
    return tc_is_pattern(f->raw, f->before) && tc_is_pattern(f->at + f->bytes, f->behind);
}

static const size_t offsets[] = {0, 1, 2, 4, 7, 8, 15, 16, 24, 31, 33, 48, 63};

#define OFFSETS (sizeof offsets / sizeof offsets[0])

TEST exact_block_suffices(const setting *s)
{
    job t;
    pu_status status;
    unsigned char *want;
    size_t bytes = 0, i;
    make_job(&t, s);
    want = reference(&t, &status);
    TC_STATUS(bytes_of(&t, &bytes), PU_OK);
    TC_ASSERT(bytes > 0);
    for (i = 0; i < OFFSETS; i++) {
        fenced f = fence(bytes, offsets[i]);
        pu_workspace ws;
        memset(&ws, 0, sizeof ws);
        tc_set_case("%s, offset %d", s->name, (int)offsets[i]);
        pu_workspace_block(&ws, f.at, f.bytes);
        TC_STATUS(run(&t, &ws), PU_OK);
        TC_ASSERT(SAME_AS(want));
        TC_ASSERT(fence_intact(&f));
        TC_ASSERT(ws.allocations == 0 && ws.block == f.at);
        TC_ASSERT(t.report.bytes <= bytes);
        pu_workspace_free(&ws); /* must not free what is not its own */
    }
    PASS();
}

/* One byte less is refused before anything is written, into the block or the outputs. */
TEST short_block_is_refused(const setting *s)
{
    job t;
    size_t bytes = 0, i;
    make_job(&t, s);
    TC_STATUS(bytes_of(&t, &bytes), PU_OK);
    for (i = 0; i < OFFSETS; i++) {
        fenced f = fence(bytes, offsets[i]);
        pu_workspace ws;
        memset(&ws, 0, sizeof ws);
        tc_set_case("%s, offset %d", s->name, (int)offsets[i]);
        pu_workspace_block(&ws, f.at, bytes - 1);
        TC_STATUS(run(&t, &ws), PU_E_BLOCK);
        TC_STATUS(t.report.status, PU_E_BLOCK);
        TC_ASSERT(tc_outputs_untouched(&t.o));
        TC_ASSERT(tc_is_pattern(f.raw, bytes + 4 * GUARD));
        pu_workspace_block(&ws, f.at, 0);
        TC_STATUS(run(&t, &ws), PU_E_BLOCK);
        TC_ASSERT(tc_outputs_untouched(&t.o));
    }
    PASS();
}

/* ---- pu_nll ---------------------------------------------------------------------------------- */

static pu_status run_nll(job *t, pu_workspace *ws, double value[2])
{
    value[0] = value[1] = -12345;
    return pu_nll(&t->model.lgm, &t->model.data, &t->options, ws, &value[0], &value[1], &t->report);
}

TEST nll_memory(const setting *s)
{
    job t;
    counter c = new_counter();
    pu_workspace ws = counted_workspace(&c);
    double want[2], got[2];
    make_job(&t, s);
    TC_STATUS(run_nll(&t, NULL, want), PU_OK);
    TC_STATUS(run_nll(&t, &ws, got), PU_OK);
    TC_ASSERT(c.calls == 1 && memcmp(got, want, sizeof got) == 0);
    TC_STATUS(run_nll(&t, &ws, got), PU_OK);
    TC_ASSERT(c.calls == 1 && memcmp(got, want, sizeof got) == 0);
    pu_workspace_free(&ws);
    c.fail_at = c.calls;
    TC_STATUS(run_nll(&t, &ws, got), PU_E_MEMORY);
    TC_CLOSE(got[0], -12345, 0);
    TC_CLOSE(got[1], -12345, 0);
    pu_workspace_free(&ws);
    TC_ASSERT(c.live_count == 0 && c.mistakes == 0);
    PASS();
}

/* ---- pu_solve -------------------------------------------------------------------------------- */

enum { SIDE = 21, WIDTH = 4 };

typedef struct {
    pu_op A;
    pu_solve_options options;
    pu_real *U, *X, *grad_A, *grad_U;
    pu_column *columns;
    unsigned char *bytes;
    size_t size;
    int gradients;
    pu_report report;
} solve_job;

static void make_solve(solve_job *t, const setting *s, int gradients)
{
    size_t x = SIDE * WIDTH * sizeof(pu_real), a = SIDE * SIDE * sizeof(pu_real);
    tc_set_case("solve %s, gradients %d", s->name, gradients);
    memset(t, 0, sizeof *t);
    t->A = pu_op_spd(SIDE, tc_random_spd(3, SIDE), NULL);
    t->options.iterations = STEPS;
    t->options.solver = s->solver;
    t->options.adjoint = s->adjoint;
    t->options.tape_every = s->checkpoint;
    t->gradients = gradients;
    t->U = tc_normal(4, SIDE * WIDTH);
    t->size = 2 * x + a + WIDTH * sizeof(pu_column);
    t->bytes = (unsigned char *)tc_bytes(t->size);
    t->columns = (pu_column *)t->bytes;
    t->X = (pu_real *)(t->bytes + WIDTH * sizeof(pu_column));
    t->grad_U = t->X + SIDE * WIDTH;
    t->grad_A = t->grad_U + SIDE * WIDTH;
}

static pu_status run_solve(solve_job *t, pu_workspace *ws)
{
    memset(t->bytes, TC_PATTERN, t->size);
    return tc_pu_solve(&t->A, WIDTH, t->U, 0, t->X, 0, NULL, NULL, &t->options, NULL, ws,
                    t->gradients ? t->grad_A : NULL, t->gradients ? t->grad_U : NULL, t->columns,
                    &t->report);
}

TEST solve_memory(const setting *s, int gradients)
{
    solve_job t;
    counter c = new_counter();
    pu_workspace ws = counted_workspace(&c);
    unsigned char *want;
    make_solve(&t, s, gradients);
    want = (unsigned char *)tc_bytes(t.size);
    TC_STATUS(run_solve(&t, NULL), PU_OK);
    memcpy(want, t.bytes, t.size);
    TC_STATUS(run_solve(&t, &ws), PU_OK);
    TC_ASSERT(c.calls == 1 && memcmp(t.bytes, want, t.size) == 0);
    TC_STATUS(run_solve(&t, &ws), PU_OK);
    TC_ASSERT(c.calls == 1 && memcmp(t.bytes, want, t.size) == 0);
    pu_workspace_free(&ws);
    c.fail_at = c.calls;
    TC_STATUS(run_solve(&t, &ws), PU_E_MEMORY);
    TC_ASSERT(tc_is_pattern(t.bytes, t.size));
    TC_STATUS(run_solve(&t, &ws), PU_OK);
    TC_ASSERT(memcmp(t.bytes, want, t.size) == 0);
    pu_workspace_free(&ws);
    TC_ASSERT(c.live_count == 0 && c.mistakes == 0);
    PASS();
}

TEST solve_block(const setting *s, int gradients)
{
    solve_job t;
    unsigned char *want;
    size_t bytes = 0, i;
    make_solve(&t, s, gradients);
    want = (unsigned char *)tc_bytes(t.size);
    TC_STATUS(run_solve(&t, NULL), PU_OK);
    memcpy(want, t.bytes, t.size);
    TC_STATUS(pu_solve_bytes(&t.A, WIDTH, &t.options, gradients, &bytes, &t.report), PU_OK);
    for (i = 0; i < OFFSETS; i++) {
        fenced f = fence(bytes, offsets[i]);
        pu_workspace ws;
        memset(&ws, 0, sizeof ws);
        pu_workspace_block(&ws, f.at, bytes - 1);
        TC_STATUS(run_solve(&t, &ws), PU_E_BLOCK);
        TC_ASSERT(tc_is_pattern(t.bytes, t.size));
        pu_workspace_block(&ws, f.at, bytes);
        TC_STATUS(run_solve(&t, &ws), PU_OK);
        TC_ASSERT(memcmp(t.bytes, want, t.size) == 0);
        TC_ASSERT(fence_intact(&f));
    }
    PASS();
}

/* ---- pu_exact -------------------------------------------------------------------------------- */

typedef struct {
    tc_model model;
    pu_exact_result result;
    unsigned char *bytes;
    size_t size;
    pu_report report;
} exact_job;

static void make_exact(exact_job *t)
{
    pu_real *at;
    tc_set_case("exact");
    memset(t, 0, sizeof *t);
    tc_random_model(&t->model, TC_SPD, D, M, N, 88);
    t->size = (2 * D * D + 2 * D) * sizeof(pu_real);
    t->bytes = (unsigned char *)tc_bytes(t->size);
    at = (pu_real *)t->bytes;
    t->result.A = at;
    t->result.Sigma = at + D * D;
    t->result.b = at + 2 * D * D;
    t->result.mu = at + 2 * D * D + D;
}

static pu_status run_exact(exact_job *t, pu_workspace *ws)
{
    memset(t->bytes, TC_PATTERN, t->size);
    t->result.nll = t->result.c = t->result.logdet = -12345;
    t->result.observed = -12345;
    return pu_exact(&t->model.lgm, &t->model.data, 2, ws, &t->result, &t->report);
}

static int exact_untouched(const exact_job *t)
{
    return tc_is_pattern(t->bytes, t->size) && t->result.observed == -12345 &&
           !(t->result.nll < -12345) && !(t->result.nll > -12345) && !(t->result.c < -12345) &&
           !(t->result.c > -12345) && !(t->result.logdet < -12345) && !(t->result.logdet > -12345);
}

TEST exact_memory(void)
{
    exact_job t;
    counter c = new_counter();
    pu_workspace ws = counted_workspace(&c);
    unsigned char *want;
    make_exact(&t);
    want = (unsigned char *)tc_bytes(t.size);
    TC_STATUS(run_exact(&t, NULL), PU_OK);
    TC_ASSERT(!tc_is_pattern(t.bytes, sizeof(pu_real)));
    memcpy(want, t.bytes, t.size);
    TC_STATUS(run_exact(&t, &ws), PU_OK);
    TC_STATUS(run_exact(&t, &ws), PU_OK);
    TC_ASSERT(c.calls == 1 && memcmp(t.bytes, want, t.size) == 0);
    pu_workspace_free(&ws);
    c.fail_at = c.calls;
    TC_STATUS(run_exact(&t, &ws), PU_E_MEMORY);
    TC_ASSERT(exact_untouched(&t));
    TC_STATUS(run_exact(&t, &ws), PU_OK);
    pu_workspace_free(&ws);
    TC_ASSERT(c.live_count == 0 && c.mistakes == 0);
    PASS();
}

TEST exact_block(void)
{
    exact_job t;
    unsigned char *want;
    size_t bytes = 0, i;
    make_exact(&t);
    want = (unsigned char *)tc_bytes(t.size);
    TC_STATUS(run_exact(&t, NULL), PU_OK);
    memcpy(want, t.bytes, t.size);
    TC_STATUS(pu_exact_bytes(&t.model.lgm, &bytes, &t.report), PU_OK);
    for (i = 0; i < OFFSETS; i++) {
        fenced f = fence(bytes, offsets[i]);
        pu_workspace ws;
        memset(&ws, 0, sizeof ws);
        pu_workspace_block(&ws, f.at, bytes - 1);
        TC_STATUS(run_exact(&t, &ws), PU_E_BLOCK);
        TC_ASSERT(exact_untouched(&t));
        pu_workspace_block(&ws, f.at, bytes);
        TC_STATUS(run_exact(&t, &ws), PU_OK);
        TC_ASSERT(memcmp(t.bytes, want, t.size) == 0);
        TC_ASSERT(fence_intact(&f));
    }
    PASS();
}

/* ---- workspaces by themselves ---------------------------------------------------------------- */

/* pu_fit_errors: a block of 0 bytes asks for the size, a byte less than that is refused, and in a block of it the errors are the same. */
TEST errors_fit_in_the_block_that_is_told(void)
{
    enum { LENGTH = 20 };
    pu_real *y = tc_normal(3, LENGTH), theta[3] = {PU_R(0.3), 0, PU_R(-0.5)}, want[3], se[3];
    pu_data data = pu_data_full(1, LENGTH, y);
    pu_model model;
    pu_workspace ws;
    pu_report r;
    unsigned char *block;
    size_t bytes;
    memset(&model, 0, sizeof model);
    memset(&ws, 0, sizeof ws);
    ASSERT_EQ(PU_OK, pu_model_noisy_ar(&model, LENGTH, 1, &r));
    ASSERT(pu_fit_errors(&model, &data, NULL, NULL, theta, want, &r) >= 0);
    pu_workspace_block(&ws, NULL, 0);
    ASSERT_EQ(PU_E_BLOCK, pu_fit_errors(&model, &data, NULL, &ws, theta, se, &r));
    bytes = r.bytes;
    ASSERT(bytes > 3 * sizeof(pu_real));
    block = (unsigned char *)malloc(bytes + 1);
    tc_keep(block);
    pu_workspace_block(&ws, block, bytes - 1);
    ASSERT_EQ(PU_E_BLOCK, pu_fit_errors(&model, &data, NULL, &ws, theta, se, &r));
    ASSERT_EQ(bytes, r.bytes);
    block[bytes] = TC_PATTERN;
    pu_workspace_block(&ws, block, bytes);
    ASSERT(pu_fit_errors(&model, &data, NULL, &ws, theta, se, &r) >= 0);
    ASSERT(block[bytes] == TC_PATTERN);
    ASSERT(memcmp(se, want, sizeof se) == 0);
    pu_model_free(&model);
    PASS();
}

TEST freeing_is_idempotent(void)
{
    pu_workspace ws;
    unsigned char block[64];
    memset(&ws, 0, sizeof ws);
    pu_workspace_free(&ws);
    pu_workspace_free(&ws);
    ASSERT(ws.block == NULL);
    memset(block, TC_PATTERN, sizeof block);
    pu_workspace_block(&ws, block, sizeof block);
    ASSERT(ws.block == block && ws.bytes == sizeof block && ws.fixed);
    pu_workspace_free(&ws);
    pu_workspace_free(&ws);
    ASSERT(tc_is_pattern(block, sizeof block));
    PASS();
}

/* A struct that nobody zeroed, for several kinds of bytes: calls that would take its memory refuse it, freeing it frees
   nothing, and a block may be given to it all the same. */
TEST arbitrary_bytes_are_no_workspace(int pattern)
{
    pu_real Phi[6] = {1, 0, 1, 1, 0, 1}, psi[3] = {4, 4, 4}, y[6] = {1, 2, 1, 0, 1, 1};
    pu_op prior = pu_op_identity(2), map = pu_op_dense(3, 2, Phi);
    pu_lgm model = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(2, 3, y);
    union {
        pu_workspace ws;
        uint32_t words[sizeof(pu_workspace) / sizeof(uint32_t)];
    } u;
    pu_workspace zero;
    pu_report report;
    size_t i;
    void *block = tc_bytes(100000);
    for (i = 0; i < sizeof u.words / sizeof *u.words; i++)
        u.words[i] = pattern < 256 ? (uint32_t)pattern * 0x01010101u : (uint32_t)(i + 1) * 2654435761u * (uint32_t)pattern;
    tc_set_case("pattern %d", pattern);
    TC_STATUS(pu_gradient(&model, &data, NULL, &u.ws, NULL, &report), PU_E_ARGUMENT);
    TC_ASSERT(strncmp(report.where.what, "workspace", 9) == 0);
    pu_workspace_free(&u.ws);
    memset(&zero, 0, sizeof zero);
    TC_ASSERT(memcmp(&zero, &u.ws, sizeof zero) == 0);
    TC_STATUS(pu_gradient(&model, &data, NULL, &u.ws, NULL, &report), PU_OK);
    pu_workspace_free(&u.ws);
    memset(&u, pattern & 255 ? pattern & 255 : 7, sizeof u);
    pu_workspace_block(&u.ws, block, 100000);
    TC_STATUS(pu_gradient(&model, &data, NULL, &u.ws, NULL, &report), PU_OK);
    TC_ASSERT(u.ws.block == block);
    PASS();
}

/* The same for a pu_model: refused and zeroed, or good, once its memory names a block. */
TEST arbitrary_bytes_are_no_model(int pattern)
{
    pu_model model;
    pu_fit_report fit;
    pu_report report;
    pu_real y[4] = {1, 2, 3, 5}, theta[8] = {0};
    pu_data data = pu_data_full(2, 2, y);
    void *block = tc_bytes(20000);
    tc_set_case("pattern %d", pattern);
    memset(&model, pattern, sizeof model);
    TC_STATUS(pu_model_factors(&model, 2, 1, &report), PU_E_ARGUMENT);
    TC_ASSERT(strncmp(report.where.what, "workspace", 9) == 0);
    TC_ASSERT(model.set == NULL && model.memory.block == NULL && model.memory.allocator.alloc == NULL);
    memset(&model, pattern, sizeof model);
    pu_model_free(&model);
    memset(&model, pattern, sizeof model);
    pu_workspace_block(&model.memory, block, 20000);
    TC_STATUS(pu_model_factors(&model, 2, 1, &report), PU_OK);
    TC_STATUS(pu_model_start(&model, &data, 1, theta, NULL), PU_OK);
    { /* and pu_fit divides a workspace before it takes memory */
        pu_workspace ws;
        memset(&ws, pattern, sizeof ws);
        TC_STATUS(pu_fit(&model, &data, NULL, &ws, theta, &fit), PU_E_ARGUMENT);
        TC_ASSERT(strncmp(fit.where.what, "workspace", 9) == 0);
    }
    pu_model_free(&model);
    PASS();
}

/* ---- stack ----------------------------------------------------------------------------------- */

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#include <pthread.h>

/* A gradient of a dense model by the solver and by the dense engine, and a fit of factor analysis. */
static void *work_on_a_small_stack(void *failed)
{
    enum { ROWS = 200, COLS = 100, DATA = 2, VARIABLES = 3 };
    pu_real *Phi = tc_reals(ROWS * COLS), *y = tc_reals(DATA * ROWS), *psi = tc_reals(ROWS), *grad = tc_reals(ROWS * COLS);
    pu_op prior = pu_op_identity(COLS), map = pu_op_dense(ROWS, COLS, Phi);
    pu_lgm lgm = {&prior, &map, NULL, NULL, psi, 0};
    pu_data data = pu_data_full(DATA, ROWS, y), few = pu_data_full(8, VARIABLES, y);
    pu_model *model = (pu_model *)tc_bytes(sizeof *model);
    pu_fit_report *report = (pu_fit_report *)tc_bytes(sizeof *report);
    pu_gradient_result out;
    pu_options o;
    pu_fit_options fit;
    memset(&out, 0, sizeof out);
    memset(&o, 0, sizeof o);
    memset(&fit, 0, sizeof fit);
    tc_fill_normal(1, ROWS * COLS, Phi);
    tc_fill_normal(2, DATA * ROWS, y);
    tc_fill(ROWS, psi, 1);
    out.Phi = grad;
    o.threads = 1;
    o.engine = PU_ITERATIVE;
    *(int *)failed |= pu_gradient(&lgm, &data, &o, NULL, &out, &report->last) != PU_OK;
    o.engine = PU_DENSE;
    o.kind = PU_EXACT;
    *(int *)failed |= pu_gradient(&lgm, &data, &o, NULL, &out, &report->last) != PU_OK;
    fit.steps = 2;
    fit.gradient.threads = 1;
    *(int *)failed |= pu_model_factors(model, VARIABLES, 1, NULL) || pu_model_start(model, &few, 1, grad, NULL) ||
                      pu_fit(model, &few, &fit, NULL, grad, report);
    pu_model_free(model);
    return NULL;
}

/* Half of what a thread has where musl is the C library, and the frames of this test are in it. */
TEST a_small_stack_suffices(void)
{
    pthread_attr_t small;
    pthread_t thread;
    int failed = 0;
    ASSERT(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 64 * 1024));
    ASSERT(!pthread_create(&thread, &small, work_on_a_small_stack, &failed));
    ASSERT(!pthread_join(thread, NULL) && !failed);
    PASS();
}
#endif

/* ---- checkpointing --------------------------------------------------------------------------- */

/* A tall job whose memory is nearly all tape: D much larger than M, one thread, one lane. */
static void make_long(job *t, pu_solver solver, pu_int checkpoint)
{
    enum { LONG_D = 600, LONG_I = 64 };
    memset(t, 0, sizeof *t);
    tc_random_model(&t->model, TC_DIAGONAL, LONG_D, 2, 2, 99);
    t->options.samples = 7;
    t->options.columns = 8;
    t->options.threads = t->options.lanes = 1;
    t->options.solve.iterations = LONG_I;
    t->options.solve.solver = solver;
    t->options.solve.tape_every = checkpoint;
    t->o = tc_make_outputs(&t->model.lgm, 2, 7, LONG_I);
    if (solver == PU_SD || solver == PU_GD) t->o.out.logdet = NULL;
}

/* Gradients only: x, residual, alpha and beta are staged and would add a copy of themselves. */
static pu_status gradient_bytes(job *t, pu_solver solver, pu_int checkpoint, size_t *bytes)
{
    make_long(t, solver, checkpoint);
    t->o.out.x = t->o.out.residual = t->o.out.alpha = t->o.out.beta = NULL;
    return bytes_of(t, bytes);
}

/* The header promises (11 + I) n k reals in full and 2 sqrt(2 I) (CG, PCG) or 2 sqrt(I) (GD, SD) in
   place of I. */
TEST checkpoints_save_what_the_header_says(pu_solver solver)
{
    double steps = 64, kept = solver <= PU_PCG ? 2 * sqrt(2 * steps) : 2 * sqrt(steps);
    double unit = 600.0 * 8 * sizeof(pu_real);
    size_t full = 0, sparse = 0;
    job t;
    tc_set_case("solver %d", (int)solver);
    TC_STATUS(gradient_bytes(&t, solver, 0, &full), PU_OK);
    TC_STATUS(gradient_bytes(&t, solver, PU_CHOOSE, &sparse), PU_OK);
    TC_CLOSE((double)full / unit, 11 + steps, 0.2 * (11 + steps));
    TC_CLOSE((double)sparse / unit, 11 + kept, 0.2 * (11 + kept));
    TC_CLOSE((double)sparse / (double)full, (11 + kept) / (11 + steps),
             0.2 * (11 + kept) / (11 + steps));
    PASS();
}

/* The same recurrences from stored states: the gradient differs by rounding at most. */
TEST checkpointed_gradient_agrees(pu_solver solver, pu_int checkpoint)
{
    job full, sparse;
    const pu_gradient_result *a = &full.o.out, *b = &sparse.o.out;
    double tol = 64 * PU_TEST_EPS; /* one rounding per step at most: the states are the same ones */
    tc_set_case("solver %d checkpoint %d", (int)solver, (int)checkpoint);
    make_long(&full, solver, 0);
    make_long(&sparse, solver, checkpoint);
    TC_STATUS(run(&full, NULL), PU_OK);
    TC_STATUS(run(&sparse, NULL), PU_OK);
    /* an interval as long as the run has nothing to save, and the report says so */
    TC_ASSERT(full.report.tape_every == 0);
    TC_ASSERT(checkpoint >= 64 ? sparse.report.tape_every == 0 : sparse.report.tape_every > 0);
    PU_CHECK_VECTOR(600, b->nu, a->nu, tol);
    PU_CHECK_VECTOR(600, b->Gamma, a->Gamma, tol);
    PU_CHECK_VECTOR(1200, b->Phi, a->Phi, tol);
    PU_CHECK_VECTOR(2, b->eta, a->eta, tol);
    PU_CHECK_VECTOR(2, b->psi, a->psi, tol);
    PU_CHECK_VECTOR(2 * 8 * 600, b->x, a->x, tol);
    PASS();
}

/* ---- sizes that do not fit ------------------------------------------------------------------- */

/* Operators of absurd sizes; whoever calls one of their functions has not checked the sizes first.
   */
static int touched;

static pu_status touch_apply(const pu_op *op, pu_int k, pu_block X, pu_block Y, int add,
                             pu_real *work)
{
    (void)op, (void)k, (void)X, (void)Y, (void)add, (void)work;
    touched++;
    return PU_E_OPERATOR;
}

static pu_status touch_sample(const pu_op *op, pu_int k, pu_block E, pu_block Y, pu_real *work)
{
    (void)op, (void)k, (void)E, (void)Y, (void)work;
    touched++;
    return PU_E_OPERATOR;
}

static pu_status touch_logdet(const pu_op *op, double *value, pu_real *work)
{
    (void)op, (void)value, (void)work;
    touched++;
    return PU_E_OPERATOR;
}

static pu_op absurd(pu_int rows, pu_int cols)
{
    pu_op op;
    memset(&op, 0, sizeof op);
    op.rows = rows;
    op.cols = cols;
    op.trusted = 1;
    op.apply = op.apply_t = touch_apply;
    op.sample = touch_sample;
    op.logdet = touch_logdet;
    return op;
}

typedef struct {
    const char *name;
    pu_int D, M, N, K, I, work, noise;
} huge_case;

#define HUGE_INT PTRDIFF_MAX

static const huge_case huge_cases[] = {
    {"D", HUGE_INT / 4, 3, 2, 3, 5, 0, 0},
    {"D, by the number of columns", HUGE_INT / 64, 3, 2, 3, 5, 0, 0},
    {"K", 4, 3, 2, HUGE_INT - 1, 5, 0, 0},
    {"K, by the number of data", 4, 3, 2, HUGE_INT / 8, 5, 0, 0},
    {"I", 4, 3, 2, 3, HUGE_INT / 16, 0, 0},
    {"I, largest", 4, 3, 2, 3, HUGE_INT, 0, 0},
    {"D times I", INT32_MAX, 3, 2, 3, INT32_MAX, 0, 0},
    {"work", 4, 3, 2, 3, 5, HUGE_INT / 4, 0},
    {"noise", 4, 3, 2, 3, 5, 0, HUGE_INT / 4},
    {"N", 4, 3, HUGE_INT / 2, 3, 5, 0, 0},
    {"N, largest", 4, 3, HUGE_INT, 3, 5, 0, 0},
};

#define HUGE_CASES ((int)(sizeof huge_cases / sizeof huge_cases[0]))

TEST huge_sizes_are_refused(const huge_case *h)
{
    pu_real y[6] = {0, 0, 0, 0, 0, 0}, psi[3] = {1, 1, 1}, out[8];
    pu_op Gamma = absurd(h->D, h->D), Phi = absurd(h->M, h->D);
    pu_lgm model = {&Gamma, &Phi, NULL, NULL, NULL, 0};
    pu_data data = pu_data_full(h->N, h->M, y);
    pu_options options;
    pu_gradient_result results;
    pu_report report;
    pu_workspace ws;
    size_t bytes = 4711;
    tc_set_case("huge %s", h->name);
    memset(&options, 0, sizeof options);
    memset(&results, 0, sizeof results);
    memset(&ws, 0, sizeof ws);
    memset(out, TC_PATTERN, sizeof out);
    model.psi = psi;
    Gamma.work = h->work;
    Gamma.noise = h->noise;
    options.samples = h->K;
    options.solve.iterations = h->I;
    results.eta = out;
    touched = 0;
    TC_STATUS(pu_gradient_bytes(&model, &data, &options, &results, &bytes, &report), PU_E_OVERFLOW);
    TC_STATUS(report.status, PU_E_OVERFLOW);
    TC_ASSERT(bytes == 4711);
    TC_STATUS(pu_gradient(&model, &data, &options, &ws, &results, &report), PU_E_OVERFLOW);
    TC_ASSERT(touched == 0);
    TC_ASSERT(ws.block == NULL && ws.allocations == 0);
    TC_ASSERT(tc_is_pattern((unsigned char *)out, sizeof out));
    PASS();
}

/* U and x0 start with a NaN: a call that looks at them before it has looked at the sizes says so.
   */
TEST huge_solve_is_refused(void)
{
    pu_op A = absurd(HUGE_INT / 4, HUGE_INT / 4);
    pu_real u[5], x[5];
    pu_report report;
    tc_fill(5, u, PU_R(NAN));
    memset(x, TC_PATTERN, sizeof x);
    touched = 0;
    tc_set_case("n = PTRDIFF_MAX / 4");
    TC_STATUS(tc_pu_solve(&A, 1, u, 0, x, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &report),
              PU_E_OVERFLOW);
    TC_ASSERT(touched == 0);
    TC_ASSERT(tc_is_pattern((unsigned char *)x, sizeof x));
    PASS();
}

TEST huge_solve_bytes_are_refused(pu_int n, pu_int k, pu_int iterations)
{
    pu_op A = absurd(n, n);
    pu_solve_options options;
    pu_report report;
    size_t bytes = 4711;
    tc_set_case("n %.3g k %.3g I %.3g", (double)n, (double)k, (double)iterations);
    memset(&options, 0, sizeof options);
    options.iterations = iterations;
    TC_STATUS(pu_solve_bytes(&A, k, &options, 1, &bytes, &report), PU_E_OVERFLOW);
    TC_STATUS(report.status, PU_E_OVERFLOW);
    TC_ASSERT(bytes == 4711);
    PASS();
}

TEST huge_exact_is_refused(void)
{
    pu_op Gamma = absurd(HUGE_INT / 4, HUGE_INT / 4), Phi = absurd(3, HUGE_INT / 4);
    pu_real y[3] = {0, 0, 0}, psi[3] = {1, 1, 1};
    pu_lgm model = {&Gamma, &Phi, NULL, NULL, NULL, 0};
    pu_data data = pu_data_full(1, 3, y);
    pu_exact_result result;
    pu_report report;
    size_t bytes = 4711;
    memset(&result, 0, sizeof result);
    model.psi = psi;
    touched = 0;
    ASSERT_EQ(pu_exact_bytes(&model, &bytes, &report), PU_E_OVERFLOW);
    ASSERT_EQ(bytes, 4711);
    ASSERT_EQ(pu_exact(&model, &data, 0, NULL, &result, &report), PU_E_OVERFLOW);
    ASSERT_EQ(touched, 0);
    PASS();
}

/* ---- main ------------------------------------------------------------------------------------ */

static void run_settings(void)
{
    int i, g;
    for (i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        RUN_TESTp(no_workspace_works, s);
        RUN_TESTp(second_call_allocates_nothing, s);
        RUN_TESTp(every_failure_is_clean, s);
        RUN_TESTp(exact_block_suffices, s);
        RUN_TESTp(short_block_is_refused, s);
        for (g = 0; s->kind == PU_NETWORK && g <= 1; g++) {
            RUN_TESTp(solve_memory, s, g);
            RUN_TESTp(solve_block, s, g);
        }
    }
    RUN_TESTp(nll_memory, &settings[0]);
    RUN_TESTp(nll_memory, &settings[1]);
    RUN_TESTp(nll_memory, &settings[SETTINGS - 1]);
}

static void run_checkpoints(void)
{
    static const pu_int intervals[] = {PU_CHOOSE, 1, 2, 7, 63, 64, 100};
    size_t i;
    int solver;
    for (solver = PU_CG; solver <= PU_GD; solver++) {
        RUN_TESTp(checkpoints_save_what_the_header_says, (pu_solver)solver);
        for (i = 0; i < sizeof intervals / sizeof intervals[0]; i++) {
            RUN_TESTp(checkpointed_gradient_agrees, (pu_solver)solver, intervals[i]);
        }
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    int i;
    GREATEST_MAIN_BEGIN();
    GREATEST_SET_TEARDOWN_CB(tc_release, NULL);
    run_settings();
    RUN_TEST(workspace_grows);
    RUN_TEST(exact_memory);
    RUN_TEST(exact_block);
    RUN_TEST(errors_fit_in_the_block_that_is_told);
    RUN_TEST(freeing_is_idempotent);
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
    RUN_TEST(a_small_stack_suffices);
#endif
    for (i = 0; i < 6; i++) {
        static const int patterns[] = {0xAA, 0xCD, 0x01, 0xFF, 300, 7001};
        RUN_TESTp(arbitrary_bytes_are_no_workspace, patterns[i]);
        if (i < 4) RUN_TESTp(arbitrary_bytes_are_no_model, patterns[i]);
    }
    run_checkpoints();
    for (i = 0; i < HUGE_CASES; i++) RUN_TESTp(huge_sizes_are_refused, &huge_cases[i]);
    RUN_TEST(huge_exact_is_refused);
    RUN_TEST(huge_solve_is_refused);
    RUN_TESTp(huge_solve_bytes_are_refused, HUGE_INT / 4, 2, 3);
    RUN_TESTp(huge_solve_bytes_are_refused, 5, HUGE_INT / 8, 3);
    RUN_TESTp(huge_solve_bytes_are_refused, 5, 2, HUGE_INT / 8);
    RUN_TESTp(huge_solve_bytes_are_refused, HUGE_INT / 2, HUGE_INT / 2, INT32_MAX);
    PU_TEST_MAIN_END();
}

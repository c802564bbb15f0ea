# mixed_reference.R - the numbers in tests/test_mixed_reference.c, by lme4: Rscript tests/bench/mixed_reference.R
# The data are made the same way there: every number is a function of the seed, by integers below 2^31.
suppressMessages(library(lme4))
s <- 0
u <- function() { s <<- (s * 16807) %% 2147483647; s / 2147483647 }
n <- function() { x <- u(); x <- x + u(); x <- x + u(); x <- x + u(); (x - 2) * sqrt(3) }
make <- function(seed, rows, na, nb, shape) {
    s <<- seed
    ua <- numeric(na); va <- numeric(na); ub <- numeric(nb)
    for (i in 1:na) ua[i] <- 0.8 * n()
    for (i in 1:na) va[i] <- 0.5 * n()
    for (i in 1:nb) ub[i] <- 0.6 * n()
    a <- b <- integer(rows); x <- y <- numeric(rows)
    for (m in 1:rows) {
        p <- u(); q <- u()
        if (shape == "unbalanced") { p <- p * p; q <- q * q * q }
        a[m] <- floor(p * na)
        b[m] <- if (shape == "nested") a[m] * (nb %/% na) + floor(q * (nb %/% na)) else floor(q * nb)
        x[m] <- 2 + n()
        y[m] <- 1 + 0.5 * x[m] + ua[a[m] + 1] + ub[b[m] + 1] + (if (shape == "slopes") va[a[m] + 1] * x[m] else 0) + 0.7 * n()
    }
    data.frame(y, x, a = factor(a), b = factor(b))
}
cases <- list(
    list("crossed", 1, 120, 12, 7, "crossed", FALSE, y ~ 1 + (1 | a) + (1 | b)),
    list("crossed", 2, 120, 12, 7, "crossed", TRUE, y ~ x + (1 | a) + (1 | b)),
    list("nested", 3, 150, 8, 24, "nested", FALSE, y ~ x + (1 | a) + (1 | b)),
    list("nested", 3, 150, 8, 24, "nested", TRUE, y ~ x + (1 | a) + (1 | b)),
    list("unbalanced", 4, 140, 20, 9, "unbalanced", TRUE, y ~ 1 + (1 | a) + (1 | b)),
    list("slopes", 5, 160, 11, 6, "slopes", FALSE, y ~ x + (1 | a) + (1 | b) + (0 + x | a)),
    list("slopes", 6, 160, 11, 6, "slopes", TRUE, y ~ x + (1 | a) + (1 | b) + (0 + x | a)))
g <- function(x) paste(sprintf("%.15g", x), collapse = ", ")
for (k in cases) {
    d <- make(k[[2]], k[[3]], k[[4]], k[[5]], k[[6]])
    f <- lmer(k[[8]], d, REML = k[[7]], control = lmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-11, maxfun = 1e5)))
    v <- as.data.frame(VarCorr(f)); r <- as.data.frame(ranef(f, condVar = TRUE))
    pick <- function(group, term) r[r$grpvar == group & r$term == term & r$grp == as.character(d[[group]][1]), ]
    slopes <- k[[6]] == "slopes"
    terms <- list(pick("a", "(Intercept)"), pick("b", "(Intercept)"))
    var <- c(v[grepl("^a", v$grp) & v$var1 == "(Intercept)", "vcov"], v[v$grp == "b", "vcov"])
    if (slopes) {
        terms <- c(terms, list(pick("a", "x")))
        var <- c(var, v[!is.na(v$var1) & v$var1 == "x", "vcov"])
    }
    var <- c(var, v[v$grp == "Residual", "vcov"])
    nll <- if (k[[7]]) REMLcrit(f) / 2 else -as.numeric(logLik(f))
    cat(sprintf('    {"%s", %d, %d, {%d, %d}, SHAPE_%s, %s, %d, %.15g,\n     {%s}, {%s}, {%s}, {%s}, {%s}},\n', k[[1]], k[[2]], k[[3]], k[[4]],
                k[[5]], toupper(k[[6]]), if (k[[7]]) "PU_REML" else "PU_ML", length(fixef(f)), nll, g(var), g(fixef(f)),
                g(sqrt(diag(as.matrix(vcov(f))))), g(sapply(terms, function(t) t$condval)), g(sapply(terms, function(t) t$condsd))))
}
